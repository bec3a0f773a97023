--- Finish an item: its lease and its record go, if the token still holds it.
-- @key schema string layout number and letters
-- @key task hash item_id -> record
-- @key cancelled hash item_id -> partition of a waiting one, "" for a running one
-- @arg echo str the token
-- @arg replay int how many times this call was sent before
-- @arg item_id str
-- @arg triggers_most int
-- @arg triggers_timeout int ms
-- @arg triggers_prefix str
-- @include now_ms
-- @include check_schema
-- @include held_lease
-- @include drop_lease
-- @include rest
-- @include send_triggers
-- @return {"acked", token, now, triggers, waiting, ""} | {"lost", token, now, 0, 0, ""} | {"schema", echo, found}
-- @cost O(log leases)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
local now = (uses.r or triggers_most > 0) and now_ms() or 0
local held, partition, start, charge = held_lease(echo)
if held == item_id then
  redis.call("HDEL", TASK, item_id)
  if uses.c then
    redis.call("HDEL", CANCELLED, item_id)
  end
  if drop_lease(echo, partition, start, charge, now, true) then
    rest()
  end
elseif held or replay == 0 or redis.call("HEXISTS", TASK, item_id) == 1 then
  return { "lost", echo, now, 0, 0, "" }
end
if triggers_most <= 0 then
  return { "acked", echo, now, 0, 0, "" }
end
local triggers, backlog = send_triggers(now, triggers_most, triggers_timeout, triggers_prefix, replay)
return { "acked", echo, now, triggers, backlog, "" }
