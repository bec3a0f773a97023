--- Move a leased item to the dead letters, if the token still holds it.
-- @key task hash item_id -> record
-- @key cancelled hash item_id -> partition of a waiting one, "" for a running one
-- @key dead_index zset item_id -> time of death (ms)
-- @arg echo str the token
-- @arg replay int how many times this call was sent before
-- @arg item_id str
-- @arg note str reason, exception and traceback, with a zero byte between
-- @arg bounds str most timeouts, most dead letters, their longest age (ms)
-- @include now_ms
-- @include check_schema
-- @include held_lease
-- @include make_letter
-- @include drop_lease
-- @include rest
-- @return {"buried", token, now, 0, 0, ""} | {"lost", token, now, 0, 0, ""} | {"schema", echo, found}
-- @cost O(log leases + log dead)
local found = check_schema()
if found then
  return { "schema", echo, found }
end
local now = now_ms()
local held, partition, start, charge = held_lease(echo)
local text = redis.call("HGET", TASK, item_id)
if held ~= item_id or not text then
  local buried = replay > 0 and not held and redis.call("ZSCORE", DEAD_INDEX, item_id)
  return { buried and "buried" or "lost", echo, now, 0, 0, "" }
end
make_letter(item_id, text, now, note .. "\0" .. start, bounds)
if uses.c then
  redis.call("HDEL", CANCELLED, item_id)
end
drop_lease(echo, partition, start, charge, now, true)
rest()
return { "buried", echo, now, 0, 0, "" }
