--- Look at leases that are due: an expired one is put back and counted.
-- @key inflight zset token -> next look (ms)
-- @include held_lease
-- @include put_back
-- @return how many had expired, how many of their items are dead letters now
local function look(now, limit, position, bounds)
  local due = redis.call("ZRANGEBYSCORE", INFLIGHT, "-inf", now, "LIMIT", 0, limit)
  local first, last, step, died = 1, #due, 1, 0
  if position == "front" then
    first, last, step = #due, 1, -1 -- the oldest ends up in front
  end
  for n = first, last, step do
    local item_id, partition, start = held_lease(due[n])
    if item_id then
      local loss = { now = now, start = start, why = "its lease ended", bounds = bounds }
      died = died + (put_back(due[n], item_id, partition, position, loss) and 0 or 1)
    else
      redis.call("ZREM", INFLIGHT, due[n])
    end
  end
  return #due, died
end
