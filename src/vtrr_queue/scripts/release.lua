--- Give a leased item back before its lease ends, if the token still holds it.
-- @arg echo str the token
-- @arg replay int how many times this call was sent before
-- @arg item_id str
-- @arg timed_out int 1 to count a timeout
-- @arg position str back | front
-- @arg triggers_most int
-- @arg triggers_timeout int ms
-- @arg triggers_prefix str
-- @arg channel str wake channel, "" for none
-- @include now_ms
-- @include check_schema
-- @include held_lease
-- @include put_back
-- @include send_triggers
-- @return {"released", token, now, triggers, waiting, ""} | {"lost", token, now, 0, 0, ""} | {"schema", echo, found}
-- @cost O(log leases + log partitions)
local found = check_schema()
if found then
  return { "schema", echo, found }
end
local now = now_ms()
local held, partition = held_lease(echo)
if held == item_id then
  put_back(echo, item_id, partition, timed_out == 1, position)
elseif held or replay == 0 then
  return { "lost", echo, now, 0, 0, "" }
end
if channel ~= "" then
  redis.call("PUBLISH", channel, "ready")
end
local triggers, backlog = send_triggers(now, triggers_most, triggers_timeout, triggers_prefix, replay)
return { "released", echo, now, triggers, backlog, "" }
