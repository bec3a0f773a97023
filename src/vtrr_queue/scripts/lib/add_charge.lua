--- Correct a partition's tag after the fact, wherever it is kept.
-- @key queue zset partition -> start tag
-- @key partition_virtual_time zset partition -> tag ahead of the clock
-- @include clock
-- @optional r
local function add_charge(partition, amount)
  local tag = redis.call("ZSCORE", QUEUE, partition)
  if tag then
    redis.call("ZADD", QUEUE, tag + amount, partition)
    return
  end
  local virtual, own = clock(), redis.call("ZSCORE", PARTITION_VIRTUAL_TIME, partition)
  tag = (own or virtual) + amount
  if tag > virtual then
    redis.call("ZADD", PARTITION_VIRTUAL_TIME, tag, partition)
  elseif own then
    redis.call("ZREM", PARTITION_VIRTUAL_TIME, partition)
  end
end
