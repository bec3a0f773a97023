--- Put a partition where it belongs after its policy or its backlog has changed.
-- @key parked zset partition -> wake time (ms)
-- @include waits
-- @include may_serve
-- @include enter
-- @include leave
-- @optional clpr
local function reconsider(partition)
  redis.call("ZREM", PARKED, partition)
  if waits(partition) > 0 and (not uses.p or may_serve(partition)) then
    enter(partition)
  else
    leave(partition)
  end
end
