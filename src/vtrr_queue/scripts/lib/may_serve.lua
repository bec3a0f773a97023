--- Whether the policy of a partition lets it be served now; one that must wait for a time is parked.
-- @key running hash partition -> leases held, while there are policies
-- @key parked zset partition -> wake time (ms)
-- @include policy_of
-- @include now_ms
-- @include arrival
-- @optional p
local function may_serve(partition)
  local policy = policy_of(partition)
  if policy.paused == 1 then
    return false
  end
  if policy.cap > 0 and tonumber(redis.call("HGET", RUNNING, partition) or 0) >= policy.cap then
    return false
  end
  local wake = policy.hold
  if policy.interval > 0 then
    wake = math.max(wake, arrival(partition, policy.interval, policy.tolerance, policy.by, now_ms()) - policy.tolerance)
  end
  if wake > now_ms() then
    redis.call("ZADD", PARKED, math.ceil(wake), partition)
    return false
  end
  return true
end
