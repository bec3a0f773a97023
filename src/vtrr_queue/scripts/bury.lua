--- Move a leased item to the dead letters, if the token still holds it; a cancelled one goes for good.
-- @key schema string layout number and letters
-- @key task hash item_id -> record
-- @key cancelled hash item_id -> partition of a waiting one, "" for a running one
-- @key dead_index zset item_id -> time of death (ms)
-- @arg echo str the token
-- @arg replay int how many times this call was sent before
-- @arg item_id str
-- @arg note str reason, exception and traceback, with a zero byte between
-- @arg bounds str most timeouts, most dead letters, their longest age (ms)
-- @arg budget str triggers that may stand, when one counts as lost (ms), prefix of new ids; "" for none
-- @include now_ms
-- @include check_schema
-- @include write_first
-- @include held_lease
-- @include make_letter
-- @include drop_lease
-- @include rest
-- @include send_triggers
-- @return {"buried", token, now, triggers, waiting, ""} | {"dropped", token, now, triggers, waiting, ""} | {"lost", token, now, 0, 0, ""} | {"schema", echo, found}
-- @cost O(log leases + log dead)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
write_first()
local now, status = now_ms(), "buried"
local held, partition, start, charge = held_lease(echo)
local text = redis.call("HGET", TASK, item_id)
if held == item_id and text then
  if uses.c and redis.call("HDEL", CANCELLED, item_id) == 1 then
    redis.call("HDEL", TASK, item_id)
    status = "dropped"
  else
    make_letter(item_id, text, now, note .. "\0" .. start, bounds)
  end
  drop_lease(echo, partition, start, charge, now, true)
  rest()
elseif replay == 0 or held or not redis.call("ZSCORE", DEAD_INDEX, item_id) then
  return { "lost", echo, now, 0, 0, "" }
end
local triggers, backlog = send_triggers(now, budget, replay)
return { status, echo, now, triggers, backlog, "" }
