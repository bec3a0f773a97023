--- Put expired leases back, promote due delayed items, and replace triggers that are missing.
-- @key triggers zset trigger id -> time sent (ms)
-- @arg echo str
-- @arg replay int how many times this call was sent before
-- @arg most int most leases and most delayed items to look at
-- @arg position str back | front
-- @arg triggers_most int
-- @arg triggers_timeout int ms
-- @arg triggers_prefix str
-- @arg channel str wake channel, "" for none
-- @include now_ms
-- @include check_schema
-- @include look
-- @include promote
-- @include next_wake
-- @include send_triggers
-- @return {"reclaimed", echo, now, triggers, waiting, next wake, expired, promoted} | {"schema", echo, found}
-- @cost O(most * log leases)
local found = check_schema()
if found then
  return { "schema", echo, found }
end
local now = now_ms()
if triggers_most > 0 then
  redis.call("ZREMRANGEBYSCORE", TRIGGERS, "-inf", now - triggers_timeout)
end
local expired, promoted = look(now, most, position), promote(now, most)
if channel ~= "" and expired + promoted > 0 then
  redis.call("PUBLISH", channel, "ready")
end
local triggers, backlog = send_triggers(now, triggers_most, triggers_timeout, triggers_prefix, replay)
if triggers_most <= 0 then
  backlog = waiting()
end
return { "reclaimed", echo, now, triggers, backlog, next_wake(), expired, promoted }
