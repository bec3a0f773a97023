--- Write a lease record: "start charge expiry id-length partition-length item_id+partition+holder".
-- The charge is a weight, or "ms/share". A run that outruns its charge is looked at sooner.
-- @key lease hash token -> lease record
-- @key inflight zset token -> next look (ms)
local function hold_lease(token, item_id, partition, start, charge, expiry, holder)
  local text = string.format("%s %s %.0f %d %d ", start, charge, expiry, #item_id, #partition)
  redis.call("HSET", LEASE, token, text .. item_id .. partition .. holder)
  if uses.r then
    expiry = math.min(expiry, math.ceil(start + string.match(charge, "^[^/]+")))
  end
  redis.call("ZADD", INFLIGHT, expiry, token)
end
