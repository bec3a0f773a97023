--- Move the clock up to the start tag that is being served; forget tags it has passed.
-- @key current_virtual_time string clock
-- @key partition_virtual_time zset partition -> tag ahead of the clock
-- @return the clock
local function advance(virtual, tag)
  if tag <= virtual then
    return virtual
  end
  redis.call("SET", CURRENT_VIRTUAL_TIME, tag)
  redis.call("ZREMRANGEBYSCORE", PARTITION_VIRTUAL_TIME, "-inf", tag)
  return tag
end
