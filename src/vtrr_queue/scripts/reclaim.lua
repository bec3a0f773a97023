--- Put expired leases back, promote due delayed items, and replace triggers that are missing.
-- @key schema string layout number and letters
-- @key triggers zset trigger id -> time sent (ms)
-- @key dead hash item_id -> letter
-- @arg echo str
-- @arg replay int how many times this call was sent before
-- @arg most int most leases and most delayed items to look at
-- @arg position str back | front
-- @arg bounds str most timeouts, most dead letters, their longest age (ms); 0 timeouts for no end
-- @arg budget str triggers that may stand, when one counts as lost (ms), prefix of new ids; "" for none
-- @arg channel str wake channel, "" for none
-- @include now_ms
-- @include check_schema
-- @include look
-- @include promote
-- @include unpark
-- @include trim_letters
-- @include rest
-- @include next_wake
-- @include waiting
-- @include send_triggers
-- @return {"reclaimed", echo, now, triggers, waiting, next wake, expired, promoted, died, looked at} | {"schema", echo, found}
-- @cost O(most * log leases)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
local now = now_ms()
if budget ~= "" and waiting() <= 0 then -- what is in the ledger of an idle queue is of no use
  redis.call("ZREMRANGEBYSCORE", TRIGGERS, "-inf", now - string.match(budget, "^%d+ (%d+)"))
end
local expired, died, looked = look(now, most, position, bounds)
local promoted = uses.d and promote(now, most) or 0
if uses.p then
  promoted = promoted + unpark(now, most)
end
if redis.call("EXISTS", DEAD) == 1 and trim_letters(now, bounds) > 0 then
  rest()
end
if channel ~= "" and expired + promoted > 0 then
  redis.call("PUBLISH", channel, "ready")
end
local triggers, backlog = send_triggers(now, budget, replay)
if budget == "" then
  backlog = waiting()
end
return { "reclaimed", echo, now, triggers, backlog, next_wake(), expired, promoted, died, looked }
