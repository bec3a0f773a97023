--- Look at leases that are due: an expired one is put back and counted, others outran their charge.
-- @key inflight zset token -> next look (ms)
-- @include look_at
-- @return how many had expired, how many of their items are dead letters now, how many were looked at
local function look(now, limit, position, bounds)
  local due = redis.call("ZRANGEBYSCORE", INFLIGHT, "-inf", now, "LIMIT", 0, limit)
  if #due == 0 then
    return 0, 0, 0
  end
  return look_at(due, now, position, bounds)
end
