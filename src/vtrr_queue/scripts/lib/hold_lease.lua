--- Write a lease record: "start charge expiry id-length partition-length item_id+partition+holder".
-- The charge is a weight, or "ms/share". A run that outruns its charge is looked at sooner. With
-- `is_new` a record that stands already is left alone.
-- @key lease hash token -> lease record
-- @key inflight zset token -> next look (ms)
-- @return whether it wrote one
local function hold_lease(token, item_id, partition, start, charge, expiry, holder, is_new)
  local text = string.format("%s %s %.0f %d %d ", start, charge, expiry, #item_id, #partition)
  if redis.call(is_new and "HSETNX" or "HSET", LEASE, token, text .. item_id .. partition .. holder) == 0 and is_new then
    return false
  end
  if uses.r then
    expiry = math.min(expiry, math.ceil(start + string.match(charge, "^[^/]+")))
  end
  redis.call("ZADD", INFLIGHT, expiry, token)
  return true
end
