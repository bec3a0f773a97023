--- Take the clock off every tag once it has grown past REBASE_AT, so that doubles stay exact.
-- @key queue zset partition -> start tag
-- @key partition_virtual_time zset partition -> tag
-- @key current_virtual_time string clock
-- @rare
-- @include write_first
-- @return the clock, 0
local function rebase(virtual)
  write_first()
  for _, key in ipairs({ QUEUE, PARTITION_VIRTUAL_TIME }) do
    local tags = redis.call("ZRANGE", key, 0, -1, "WITHSCORES")
    for n = 1, #tags, 2 do
      redis.call("ZADD", key, tonumber(tags[n + 1]) - virtual, tags[n])
    end
  end
  redis.call("SET", CURRENT_VIRTUAL_TIME, 0)
  return 0
end
