--- Push back the expiry of leases that are still held.
-- @key schema string layout number and letters
-- @arg echo str
-- @arg lease_ms int > 0
-- @rest leases item_id, token
-- @include now_ms
-- @include check_schema
-- @include write_first
-- @include held_lease
-- @include hold_lease
-- @return {"renewed", echo, now, 0, 0, "", expiry, lost token...} | {"schema", echo, found}
-- @cost O(leases * log inflight)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
write_first()
local now = now_ms()
local reply = { "renewed", echo, now, 0, 0, "", string.format("%.0f", now + lease_ms) }
for at = leases, #ARGV, 2 do
  local item_id, token = ARGV[at], ARGV[at + 1]
  local held, partition, start, charge, _, holder = held_lease(token)
  if held == item_id then
    hold_lease(token, item_id, partition, start, charge, now + lease_ms, holder)
  else
    reply[#reply + 1] = token
  end
end
return reply
