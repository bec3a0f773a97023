--- Store a partition's tag after a serve: in the queue while something waits, else only as debt.
-- @key queue zset partition -> start tag
-- @key partition_virtual_time zset partition -> tag ahead of the clock
local function keep_tag(partition, tag, virtual, stays)
  if stays then
    redis.call("ZADD", QUEUE, tag, partition)
    return
  end
  if tag > virtual then
    redis.call("ZADD", PARTITION_VIRTUAL_TIME, tag, partition)
  end
  redis.call("ZREM", QUEUE, partition)
end
