--- A worker came: its trigger leaves the ledger, and so do those that are lost for sure.
-- Brokers deliver in order, so what was sent long before the trigger that came is gone. A worker
-- that pulls without one found no trigger waiting for it.
-- @key triggers zset trigger id -> time sent (ms)
local function take_trigger(trigger_id, now, budget)
  local latest, timeout = now, string.match(budget, "^%d+ (%d+)")
  if trigger_id ~= "" then
    latest = redis.call("ZSCORE", TRIGGERS, trigger_id)
    redis.call("ZREM", TRIGGERS, trigger_id)
  end
  if latest and timeout then
    redis.call("ZREMRANGEBYSCORE", TRIGGERS, "-inf", latest - timeout)
  end
end
