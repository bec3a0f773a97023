--- Enter the triggers that should be sent now into the ledger.
-- Ids are prefix-1, prefix-2, ...; a repeated call (replay) reports what the first one entered.
-- `wanted` bounds the number further: a call that enqueues asks for no more than it brought.
-- @key triggers zset trigger id -> time sent (ms)
-- @include waiting
-- @return how many to send, how many items wait
local function send_triggers(now, most, timeout, prefix, replay, wanted)
  if most <= 0 then
    return 0, 0
  end
  local count, backlog = 0, waiting()
  while replay > 0 and count < most and redis.call("ZSCORE", TRIGGERS, prefix .. "-" .. count + 1) do
    count = count + 1
  end
  if count > 0 or backlog <= 0 then
    return count, backlog
  end
  redis.call("ZREMRANGEBYSCORE", TRIGGERS, "-inf", now - timeout)
  count = math.min(most - redis.call("ZCARD", TRIGGERS), wanted or backlog, backlog)
  for n = 1, count do
    redis.call("ZADD", TRIGGERS, now, prefix .. "-" .. n)
  end
  return math.max(count, 0), backlog
end
