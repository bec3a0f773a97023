--- Enter the triggers that should be sent now into the ledger.
-- Ids are prefix-1, prefix-2, ...; a repeated call (replay) reports what the first one entered.
-- `wanted` bounds the number further: a call that enqueues asks for no more than it brought.
-- A trigger older than `timeout` counts as lost and is replaced, but may as well wait in the broker:
-- it stays in the ledger, and each round of replacements comes after twice the time, MOST_ROUNDS in
-- all, so that a queue without workers gathers a bounded number of messages.
-- @rare
-- @key triggers zset trigger id -> time sent (ms)
-- @key queue zset partition -> start tag
-- @include waiting
-- @include room
-- @return how many to send, how many items wait
local function send_triggers(now, budget, replay, wanted)
  if budget == "" then
    return 0, 0
  end
  local most, timeout, prefix = string.match(budget, "^(%d+) (%d+) (.*)$")
  most, timeout = tonumber(most), tonumber(timeout)
  local count, backlog = 0, waiting()
  while replay > 0 and count < most and redis.call("ZSCORE", TRIGGERS, prefix .. "-" .. count + 1) do
    count = count + 1
  end
  if count > 0 or backlog <= 0 then
    return count, backlog
  end
  if uses.p and (redis.call("EXISTS", QUEUE) == 0 or room(now) <= 0) then -- a trigger would find nothing
    return 0, backlog
  end
  count = math.min(most, wanted or backlog, backlog)
  local oldest = redis.call("ZRANGE", TRIGGERS, 0, 0, "WITHSCORES")[2]
  if oldest then
    local lost, rounds = redis.call("ZCOUNT", TRIGGERS, "-inf", now - timeout), 1
    while rounds < MOST_ROUNDS and now - oldest >= timeout * 2 ^ (rounds - 1) do
      rounds = rounds + 1
    end
    local total = redis.call("ZCARD", TRIGGERS)
    count = math.min(count, most - (total - lost), rounds * most - total)
  end
  for n = 1, count do
    redis.call("ZADD", TRIGGERS, now, prefix .. "-" .. n)
  end
  return math.max(count, 0), backlog
end
