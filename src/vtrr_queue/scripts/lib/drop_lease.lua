--- Forget a lease and give back its partition's running slot; the charge becomes what the run cost.
-- @key lease hash token -> lease record
-- @key inflight zset token -> next look (ms)
-- @key running hash partition -> leases held
-- @include settle
-- @include readmit
-- @return whether the partition runs nothing any more
local function drop_lease(token, partition, start, charge, ended, learns)
  redis.call("ZREM", INFLIGHT, token)
  redis.call("HDEL", LEASE, token)
  if uses.r then
    settle(partition, start, charge, ended, learns)
  end
  local left = redis.call("HINCRBY", RUNNING, partition, -1)
  if left <= 0 then
    redis.call("HDEL", RUNNING, partition)
  end
  if uses.p then
    readmit(partition)
  end
  return left <= 0
end
