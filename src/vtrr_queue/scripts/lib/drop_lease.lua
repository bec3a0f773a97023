--- Forget a lease and give back its partition's running slot.
-- @key lease hash token -> lease record
-- @key inflight zset token -> next look (ms)
-- @key running hash partition -> leases held
local function drop_lease(token, partition)
  redis.call("ZREM", INFLIGHT, token)
  redis.call("HDEL", LEASE, token)
  if redis.call("HINCRBY", RUNNING, partition, -1) <= 0 then
    redis.call("HDEL", RUNNING, partition)
  end
end
