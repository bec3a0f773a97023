--- Store items of one partition, oldest first, and make the partition servable.
-- A producer numbers its calls, so that a call repeated after a lost reply stores nothing twice.
-- @key schema string layout number and letters
-- @key queue zset partition -> start tag
-- @key task hash item_id -> record
-- @key parked zset partition -> wake time (ms)
-- @key backlog list waiting item ids
-- @key recent string number of the producer's last call and its duplicates, short-lived
-- @arg echo str returned as it came
-- @arg producer str who calls
-- @arg call int number of this call, rising per producer
-- @arg remember_ms int how long the number is kept, ms
-- @arg partition str
-- @arg on_duplicate str skip | error
-- @arg budget str triggers that may stand, when one counts as lost (ms), prefix of new ids; "" for none
-- @arg items int items of the whole call, of which this may be a part
-- @arg fresh int items of the whole call that are not known yet; 0 for a later part of it
-- @arg channel str wake channel, "" for none
-- @arg tells int 1 to tell there of what is servable, too
-- @rest entries item_id, mark "weight[@level][+delay (ms)]", body
-- @include now_ms
-- @include check_schema
-- @include seen_before
-- @include needs_room
-- @include judge_marks
-- @include policy_of
-- @include waits
-- @include store
-- @include keep_schema
-- @include enter
-- @include send_triggers
-- @return {"enqueued", echo, now, triggers, waiting, "", duplicate item_id...} | {"enqueued", echo, now} without both | {"duplicate", echo, now, 0, 0, "", item_id...} | {"weight", echo, now, 0, 0, "", item_id, weight} | {"full", echo, now, 0, 0, "", waiting, bound} | {"schema", echo, found}
-- @cost O(entries)
local schema = redis.call("GET", SCHEMA)
local found = check_schema(schema)
if found then
  return { "schema", echo, found }
end
local now = now_ms()
local reply, several = {}, #ARGV > entries + 2
local ids, marks, stands, plain, new_letter = {}, {}, {}, true, not schema
for at = entries, #ARGV, 3 do
  ids[#ids + 1], marks[#marks + 1] = ARGV[at], ARGV[at + 1]
  plain = plain and ARGV[at + 1] == "1"
end
if not plain then
  local wrong, has_levels = judge_marks(marks)
  if wrong then
    return { "weight", echo, now, 0, 0, "", ids[wrong], marks[wrong] }
  end
  if has_levels and not string.find(OPTIONS, "l", 1, true) then
    return { "schema", echo, "options l" }
  end
  new_letter = new_letter or has_levels and not uses.l
  uses["l"] = uses["l"] or has_levels
end
local bound = uses.p and fresh > 0 and policy_of(partition).backlog or 0
local marker, last = RECENT .. ":" .. producer
local sure = bound == 0 and on_duplicate ~= "error" -- nothing below refuses the call
if sure then
  last = redis.call("SET", marker, call, "PX", remember_ms, "GET")
else
  last = redis.call("GET", marker)
end
if last and tonumber(string.match(last, "^%d+")) >= call then
  reply = seen_before(marker, last, remember_ms)
  local sent, left = send_triggers(now, budget, 1, items)
  if sent == 0 and #reply == 0 then
    return { "enqueued", echo, now }
  end
  return { "enqueued", echo, now, sent, left, "", unpack(reply) }
end
if several or bound > 0 or on_duplicate == "error" then
  stands = redis.call("HMGET", TASK, unpack(ids))
end
for n = 1, on_duplicate == "error" and #ids or 0 do
  reply[#reply + 1] = stands[n] and ids[n] or nil
end
if #reply > 0 then
  return { "duplicate", echo, now, 0, 0, "", unpack(reply) }
end
if bound > 0 then
  local waiting_now = waits(partition)
  if waiting_now + needs_room(fresh, marks, stands) > bound then
    return { "full", echo, now, 0, 0, "", waiting_now, bound }
  end
end

local ready, pushed, later
reply, ready, pushed, later = store(partition, ids, marks, stands, entries - 1, several, now)
local entered = pushed
if #ready > 0 then
  local length = redis.call("RPUSH", BACKLOG .. ":" .. partition, unpack(ready))
  entered = entered or uses.c or length == #ready -- else others wait: it is where it belongs
end
if entered then
  enter(partition)
end
if later and not uses.d then
  keep_schema("d")
elseif new_letter then
  keep_schema()
end
if #reply > 0 or not sure then
  redis.call("SET", marker, #reply > 0 and call .. " " .. cjson.encode(reply) or call, "PX", remember_ms)
end
if uses.p and entered and redis.call("ZSCORE", PARKED, partition) then
  later = true -- no trigger is sent for it: somebody must come when its time has
end
if channel ~= "" and (later or tells == 1 and entered and (uses.p or redis.call("ZCARD", QUEUE) == 1)) then
  -- Else something was servable before: workers that idle were told then.
  redis.call("PUBLISH", channel, tells == 1 and (pushed or #ready > 0) and "ready" or "later")
end
local triggers, backlog = send_triggers(now, budget, 0, items)
if triggers == 0 and #reply == 0 then
  return { "enqueued", echo, now }
end
return { "enqueued", echo, now, triggers, backlog, "", unpack(reply) }
