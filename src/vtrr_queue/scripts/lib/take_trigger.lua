--- A worker came: its trigger leaves the ledger, and so do those that are lost for sure.
-- Brokers deliver in order, so what was sent long before the trigger that came is gone. A worker
-- that pulls without one found no trigger waiting for it.
-- @key triggers zset trigger id -> time sent (ms)
local function take_trigger(trigger_id, pulled, now, timeout)
  local latest = pulled == 1 and now
  if trigger_id ~= "" then
    latest = redis.call("ZSCORE", TRIGGERS, trigger_id)
    redis.call("ZREM", TRIGGERS, trigger_id)
  end
  if latest then
    redis.call("ZREMRANGEBYSCORE", TRIGGERS, "-inf", latest - timeout)
  end
end
