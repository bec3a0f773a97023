--- Finish an item: its lease and its record go, if the token still holds it.
-- @key schema string layout number and letters
-- @key lease hash token -> lease record
-- @key task hash item_id -> record
-- @key cancelled hash item_id -> partition of a waiting one, "" for a running one
-- @arg echo str the token
-- @arg replay int how many times this call was sent before
-- @arg item_id str
-- @arg budget str triggers that may stand, when one counts as lost (ms), prefix of new ids; "" for none
-- @include now_ms
-- @include check_schema
-- @include leased_id
-- @include lease_terms
-- @include drop_lease
-- @include rest
-- @include send_triggers
-- @return {"acked", token, now, triggers, waiting, ""} | {"acked", token, now} without a budget | {"lost", token, now, 0, 0, ""} | {"schema", echo, found}
-- @cost O(log leases)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
local now = 0
if uses.r or budget ~= "" then
  now = now_ms()
end
local text = redis.call("HGET", LEASE, echo)
local held = nil
if text then
  held = leased_id(text)
end
if held == item_id then
  local partition, start, charge
  if uses.p then -- a charge by run time is part of a policy
    partition, start, charge = lease_terms(text)
  end
  redis.call("HDEL", TASK, item_id)
  if uses.c then
    redis.call("HDEL", CANCELLED, item_id)
  end
  drop_lease(echo, partition, start, charge, now, true)
  rest()
elseif held or replay == 0 or redis.call("HEXISTS", TASK, item_id) == 1 then
  return { "lost", echo, now, 0, 0, "" }
end
if budget == "" then
  return { "acked", echo, now }
end
local triggers, backlog = send_triggers(now, budget, replay)
return { "acked", echo, now, triggers, backlog, "" }
