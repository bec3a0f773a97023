--- Make a partition servable; one that came back from idling starts at the clock, debt is kept.
-- @key queue zset partition -> start tag
-- @key partition_virtual_time zset partition -> tag ahead of the clock
-- @include clock
local function enter(partition)
  if redis.call("ZSCORE", QUEUE, partition) then
    return
  end
  local tag = clock()
  local own = redis.call("ZSCORE", PARTITION_VIRTUAL_TIME, partition)
  if own then
    tag = math.max(tag, tonumber(own))
  end
  redis.call("ZADD", QUEUE, tag, partition)
  if own then
    redis.call("ZREM", PARTITION_VIRTUAL_TIME, partition)
  end
end
