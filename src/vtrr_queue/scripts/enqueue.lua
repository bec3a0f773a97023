--- Store items of one partition, oldest first, and make the partition servable.
-- A producer numbers its calls, so that a call repeated after a lost reply stores nothing twice.
-- @key task hash item_id -> record
-- @key backlog list waiting item ids
-- @key cancelled hash item_id -> partition of a waiting one, "" for a running one
-- @key dead hash item_id -> letter
-- @key dead_index zset item_id -> time of death (ms)
-- @key recent string number of the producer's last call and its duplicates, short-lived
-- @arg echo str returned as it came
-- @arg producer str who calls
-- @arg call int number of this call, rising per producer
-- @arg remember_ms int how long the number is kept, ms
-- @arg partition str
-- @arg on_duplicate str skip | error
-- @arg triggers_most int
-- @arg triggers_timeout int ms
-- @arg triggers_prefix str
-- @arg items int items of the whole call, of which this may be a part
-- @arg fresh int items of the whole call that are not known yet; 0 for a later part of it
-- @arg channel str wake channel, "" for none
-- @rest entries item_id, weight, delay (ms), body
-- @include now_ms
-- @include check_schema
-- @include is_weight
-- @include policy_of
-- @include waits
-- @include close_hole
-- @include push
-- @include keep_schema
-- @include record
-- @include enter
-- @include set_aside
-- @include send_triggers
-- @return {"enqueued", echo, now, triggers, waiting, "", duplicate item_id...} | {"duplicate", echo, now, 0, 0, "", item_id...} | {"weight", echo, now, 0, 0, "", item_id, weight} | {"full", echo, now, 0, 0, "", waiting, bound} | {"schema", echo, found}
-- @cost O(entries)
local found = check_schema()
if found then
  return { "schema", echo, found }
end
local now, reply = now_ms(), {}
local marker = RECENT .. ":" .. producer
local last, known = string.match(redis.call("GET", marker) or "-1", "^(%S+) ?(.*)$")
if tonumber(last) >= call then
  reply = known ~= "" and cjson.decode(known) or reply
  redis.call("PEXPIRE", marker, remember_ms) -- WAIT waits for writes of its own connection only
  local sent, left = send_triggers(now, triggers_most, triggers_timeout, triggers_prefix, 1, items)
  return { "enqueued", echo, now, sent, left, "", unpack(reply, 1, math.min(#reply, MOST_UNPACK)) }
end
for at = entries, #ARGV, 4 do
  if not is_weight(ARGV[at + 1]) then
    return { "weight", echo, now, 0, 0, "", ARGV[at], ARGV[at + 1] }
  end
  if string.find(ARGV[at + 1], "@", 1, true) then
    if not string.find(OPTIONS, "l", 1, true) then
      return { "schema", echo, "options l" }
    end
    uses["l"] = true
  end
  if on_duplicate == "error" and redis.call("HEXISTS", TASK, ARGV[at]) == 1 then
    reply[#reply + 1] = ARGV[at]
  end
end
if #reply > 0 then
  return { "duplicate", echo, now, 0, 0, "", unpack(reply, 1, math.min(#reply, MOST_UNPACK)) }
end
local bound = uses.p and policy_of(partition).backlog or 0
if bound > 0 and fresh > 0 then
  local more, waiting_now = fresh, waits(partition)
  for at = entries, #ARGV, 4 do
    local delayed = tonumber(ARGV[at + 2]) > 0
    more = more - (delayed and 1 or redis.call("HEXISTS", TASK, ARGV[at]))
  end
  if waiting_now + more > bound then
    return { "full", echo, now, 0, 0, "", waiting_now, bound }
  end
end

local ready, has_ready, seen_dead = {}, false, redis.call("EXISTS", DEAD) == 1
for at = entries, #ARGV, 4 do
  local hole = uses.c and redis.call("HGET", CANCELLED, ARGV[at])
  if hole and hole ~= "" then -- the id comes again: its old place in the backlog goes
    close_hole(hole, ARGV[at])
  end
  local item_id, weight, delay = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  if redis.call("HSETNX", TASK, item_id, record(weight, 0, 0, partition, ARGV[at + 3])) == 0 then
    reply[#reply + 1] = item_id
  elseif delay > 0 then
    set_aside(item_id, now + delay)
  elseif uses.l then
    push(partition, item_id, weight .. " ", "back")
    has_ready = true
  else
    ready[#ready + 1] = item_id
  end
  if seen_dead and redis.call("HDEL", DEAD, item_id) == 1 then
    redis.call("ZREM", DEAD_INDEX, item_id)
  end
end
for from = 1, #ready, MOST_UNPACK do
  redis.call("RPUSH", BACKLOG .. ":" .. partition, unpack(ready, from, math.min(from + MOST_UNPACK - 1, #ready)))
end
has_ready = has_ready or #ready > 0
if has_ready then
  enter(partition)
end
keep_schema()
redis.call("SET", marker, #reply > 0 and call .. " " .. cjson.encode(reply) or call, "PX", remember_ms)
if channel ~= "" then
  redis.call("PUBLISH", channel, has_ready and "ready" or "later")
end
local triggers, backlog = send_triggers(now, triggers_most, triggers_timeout, triggers_prefix, 0, items)
return { "enqueued", echo, now, triggers, backlog, "", unpack(reply, 1, math.min(#reply, MOST_UNPACK)) }
