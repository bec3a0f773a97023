--- Move a leased item to the delayed set for its Celery retry, if the token still holds it.
-- @key task hash item_id -> record
-- @key delayed zset item_id -> due time (ms)
-- @arg echo str the token
-- @arg replay int how many times this call was sent before
-- @arg item_id str
-- @arg delay_ms int >= 0
-- @arg retry_count int retries after this one
-- @arg body str payload of the retry
-- @arg channel str wake channel, "" for none
-- @include now_ms
-- @include check_schema
-- @include held_lease
-- @include read_record
-- @include record
-- @include drop_lease
-- @return {"retried", token, now, 0, 0, due} | {"lost", token, now, 0, 0, ""} | {"schema", echo, found}
-- @cost O(log leases + log delayed)
local found = check_schema()
if found then
  return { "schema", echo, found }
end
local now = now_ms()
local held = held_lease(echo)
local text = redis.call("HGET", TASK, item_id)
if held ~= item_id or not text then
  local due = replay > 0 and not held and redis.call("ZSCORE", DELAYED, item_id)
  return due and { "retried", echo, now, 0, 0, due } or { "lost", echo, now, 0, 0, "" }
end
local weight, timeouts, _, partition = read_record(text)
redis.call("HSET", TASK, item_id, record(weight, timeouts, retry_count, partition, body))
redis.call("ZADD", DELAYED, now + delay_ms, item_id)
drop_lease(echo, partition)
if channel ~= "" then
  redis.call("PUBLISH", channel, "later")
end
return { "retried", echo, now, 0, 0, string.format("%.0f", now + delay_ms) }
