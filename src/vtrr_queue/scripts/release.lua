--- Give a leased item back before its lease ends, if the token still holds it.
-- @key schema string layout number and letters
-- @key dead_index zset item_id -> time of death (ms)
-- @arg echo str the token
-- @arg replay int how many times this call was sent before
-- @arg item_id str
-- @arg timed_out int 1 to count a timeout
-- @arg position str back | front
-- @arg why str how the run ended, for a dead letter
-- @arg bounds str most timeouts, most dead letters, their longest age (ms); 0 timeouts for no end
-- @arg budget str triggers that may stand, when one counts as lost (ms), prefix of new ids; "" for none
-- @arg channel str wake channel, "" for none
-- @include now_ms
-- @include check_schema
-- @include write_first
-- @include held_lease
-- @include put_back
-- @include send_triggers
-- @return {"released", token, now, triggers, waiting, ""} | {"buried", token, now, triggers, waiting, ""} | {"lost", token, now, 0, 0, ""} | {"schema", echo, found}
-- @cost O(log leases + log partitions)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
write_first()
local now = now_ms()
local status = "released"
local held, partition, start, charge = held_lease(echo)
if held == item_id then
  local loss = timed_out == 1 and { now = now, start = start, why = why, bounds = bounds }
  local fate = put_back(echo, item_id, partition, position, start, charge, now, loss)
  status = fate == "buried" and fate or status
elseif held or replay == 0 then
  return { "lost", echo, now, 0, 0, "" }
elseif redis.call("ZSCORE", DEAD_INDEX, item_id) then
  status = "buried"
end
if channel ~= "" then
  redis.call("PUBLISH", channel, "ready")
end
local triggers, backlog = send_triggers(now, budget, replay)
return { status, echo, now, triggers, backlog, "" }
