--- Move a leased item to the delayed set for its Celery retry, if the token still holds it.
-- @key schema string layout number and letters
-- @key task hash item_id -> record
-- @key cancelled hash item_id -> partition of a waiting one, "" for a running one
-- @key delayed zset item_id -> due time (ms) and place among equal ones
-- @arg echo str the token
-- @arg replay int how many times this call was sent before
-- @arg item_id str
-- @arg delay_ms int >= 0
-- @arg retry_count int retries after this one
-- @arg body str payload of the retry
-- @arg channel str wake channel, "" for none
-- @include now_ms
-- @include check_schema
-- @include write_first
-- @include held_lease
-- @include read_record
-- @include record
-- @include drop_lease
-- @include set_aside
-- @include keep_schema
-- @include rest
-- @return {"retried", token, now, 0, 0, due} | {"lost", token, now, 0, 0, ""} | {"schema", echo, found}
-- @cost O(log leases + log delayed)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
write_first()
local now = now_ms()
local held, _, start, charge = held_lease(echo)
local text = redis.call("HGET", TASK, item_id)
if not text or held and held ~= item_id then
  return { "lost", echo, now, 0, 0, "" }
end
local weight, timeouts, retries, _, partition = read_record(text)
if not held then
  -- Sent before and answered in vain: the item waits for this retry, or waited and went on.
  local status = replay > 0 and tonumber(retries) == retry_count and "retried" or "lost"
  local due = status == "retried" and math.floor(redis.call("ZSCORE", DELAYED, item_id) or now)
  return { status, echo, now, 0, 0, due and string.format("%.0f", due) or "" }
end
local is_cancelled = uses.c and redis.call("HDEL", CANCELLED, item_id) == 1
if is_cancelled then
  redis.call("HDEL", TASK, item_id)
else
  redis.call("HSET", TASK, item_id, record(weight, timeouts, retry_count, now + delay_ms, partition, body))
  set_aside(item_id, now + delay_ms)
  if not uses.d then
    keep_schema("d")
  end
end
drop_lease(echo, partition, start, charge, now, true)
if is_cancelled then
  rest()
  return { "retried", echo, now, 0, 0, "" }
end
if channel ~= "" then
  redis.call("PUBLISH", channel, "later")
end
return { "retried", echo, now, 0, 0, string.format("%.0f", now + delay_ms) }
