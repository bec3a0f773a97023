--- Put expired leases back and count them; charge runs more that outran their charge.
-- @rare
-- @key inflight zset token -> next look (ms)
-- @include held_lease
-- @include write_first
-- @include put_back
-- @include outrun
-- @return how many had expired, how many of their items are dead letters now, how many were looked at
local function look_at(due, now, position, bounds)
  write_first()
  local first, last, step, expired, died = 1, #due, 1, 0, 0
  if position == "front" then
    first, last, step = #due, 1, -1 -- the oldest ends up in front
  end
  for n = first, last, step do
    local token = due[n]
    local item_id, partition, start, charge, expiry, holder = held_lease(token)
    if not item_id then
      redis.call("ZREM", INFLIGHT, token)
    elseif tonumber(expiry) > now and uses.r then
      outrun(token, item_id, partition, start, charge, expiry, holder, now)
    elseif tonumber(expiry) > now then -- run time is no longer charged
      redis.call("ZADD", INFLIGHT, expiry, token)
    else
      local loss = { now = now, start = start, why = "its lease ended", bounds = bounds }
      local status = put_back(token, item_id, partition, position, start, charge, expiry, loss)
      expired, died = expired + 1, died + (status == "buried" and 1 or 0)
    end
  end
  return expired, died, #due
end
