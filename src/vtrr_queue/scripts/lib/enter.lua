--- Make a partition servable that has something waiting, if its policy lets it be.
-- One that came back from idling, a limit or a pause starts at the clock; debt is kept.
-- @key queue zset partition -> start tag
-- @key partition_virtual_time zset partition -> tag ahead of the clock
-- @key parked zset partition -> wake time (ms)
-- @include clock
-- @include may_serve
local function enter(partition)
  if uses.p and (redis.call("ZSCORE", QUEUE, partition) or not may_serve(partition)) then
    return
  end
  local tag = clock()
  local own = redis.call("ZSCORE", PARTITION_VIRTUAL_TIME, partition)
  if own then
    tag = math.max(tag, tonumber(own))
  end
  redis.call("ZADD", QUEUE, "NX", tag, partition)
  if own then
    redis.call("ZREM", PARTITION_VIRTUAL_TIME, partition)
  end
  if uses.p then
    redis.call("ZREM", PARKED, partition)
  end
end
