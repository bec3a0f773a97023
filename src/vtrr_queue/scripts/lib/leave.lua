--- Take a partition out of the queue; its tag is kept while it is ahead of the clock.
-- @key queue zset partition -> start tag
-- @include clock
-- @include keep_tag
-- @optional clpr
local function leave(partition)
  local tag = redis.call("ZSCORE", QUEUE, partition)
  if tag then
    keep_tag(partition, tonumber(tag), clock(), false)
  end
end
