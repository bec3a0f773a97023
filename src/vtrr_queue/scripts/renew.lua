--- Push back the expiry of a lease that is still held.
-- @arg echo str the token
-- @arg item_id str
-- @arg lease_ms int > 0
-- @include now_ms
-- @include check_schema
-- @include held_lease
-- @include hold_lease
-- @return {"renewed", token, now, 0, 0, "", expiry} | {"lost", token, now, 0, 0, ""} | {"schema", echo, found}
-- @cost O(log leases)
local found = check_schema()
if found then
  return { "schema", echo, found }
end
local now = now_ms()
local held, partition, start, charge, _, holder = held_lease(echo)
if held ~= item_id then
  return { "lost", echo, now, 0, 0, "" }
end
hold_lease(echo, item_id, partition, start, charge, now + lease_ms, holder)
return { "renewed", echo, now, 0, 0, "", string.format("%.0f", now + lease_ms) }
