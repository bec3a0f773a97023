--- Look at leases that are due: an expired one is put back and counted.
-- @key inflight zset token -> next look (ms)
-- @include held_lease
-- @include put_back
-- @return how many were put back
local function look(now, limit, position)
  local due = redis.call("ZRANGEBYSCORE", INFLIGHT, "-inf", now, "LIMIT", 0, limit)
  local first, last, step = 1, #due, 1
  if position == "front" then
    first, last, step = #due, 1, -1 -- the oldest ends up in front
  end
  for n = first, last, step do
    local token = due[n]
    local item_id, partition = held_lease(token)
    if item_id then
      put_back(token, item_id, partition, true, position)
    else
      redis.call("ZREM", INFLIGHT, token)
    end
  end
  return #due
end
