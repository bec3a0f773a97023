--- Forget a lease and give back its partition's running slot; the charge becomes what the run cost.
-- @key lease hash token -> lease record
-- @key inflight zset token -> next look (ms)
-- @key running hash partition -> leases held, while there are policies
-- @include settle
-- @include readmit
local function drop_lease(token, partition, start, charge, ended, learns)
  redis.call("ZREM", INFLIGHT, token)
  redis.call("HDEL", LEASE, token)
  if uses.r then
    settle(partition, start, charge, ended, learns)
  end
  if uses.p then
    if redis.call("HINCRBY", RUNNING, partition, -1) <= 0 then
      redis.call("HDEL", RUNNING, partition)
    end
    readmit(partition)
  end
end
