--- Cancel items: what waits goes at once, what runs is marked and does not run again.
-- @key schema string layout number and letters
-- @key task hash item_id -> record
-- @key delayed zset item_id -> due time (ms)
-- @key lease hash token -> lease record
-- @key cancelled hash item_id -> partition of a waiting one, "" for a running one
-- @key holes hash partition -> ids in its backlogs that were cancelled
-- @arg echo str
-- @arg replay int how many times this call was sent before
-- @rest item_ids
-- @include now_ms
-- @include check_schema
-- @include write_first
-- @include held_lease
-- @include read_record
-- @include skip_cancelled
-- @include reconsider
-- @include keep_schema
-- @include rest
-- @return {"cancelled", echo, now, 0, 0, "", (item_id, state)...} | {"schema", echo, found}
-- @optional clpr
-- @cost O(ids + leases)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
write_first()
local running, touched, reply = {}, {}, { "cancelled", echo, now_ms(), 0, 0, "" }
for _, token in ipairs(redis.call("HKEYS", LEASE)) do
  running[held_lease(token)] = true
end
for at = item_ids, #ARGV do
  local item_id, state = ARGV[at], "waiting"
  local text = redis.call("HGET", TASK, item_id)
  local partition = text and select(5, read_record(text))
  if not text then
    state = replay > 0 and state -- by the call whose reply was lost, most likely
  elseif running[item_id] then
    redis.call("HSET", CANCELLED, item_id, "")
    state = "running"
  else
    redis.call("HDEL", TASK, item_id)
    if redis.call("ZREM", DELAYED, item_id) == 0 then
      redis.call("HSET", CANCELLED, item_id, partition)
      redis.call("HINCRBY", HOLES, partition, 1)
      touched[partition] = true
    end
  end
  if state then
    reply[#reply + 1], reply[#reply + 2] = item_id, state
    uses["c"] = true
  end
end
for partition in pairs(touched) do
  for _ = 1, MOST_SKIPS do -- the others are skipped when their turn comes
    if skip_cancelled(partition) < MOST_CUT then
      break
    end
  end
  reconsider(partition)
end
if uses.c then
  keep_schema()
end
rest()
return reply
