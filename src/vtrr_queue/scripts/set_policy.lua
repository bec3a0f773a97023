--- Change the policy of a partition, or the defaults and limits of the queue; it acts at once.
-- @key schema string layout number and letters
-- @key policy hash partition -> policy, "" for the queue
-- @key running hash partition -> leases held, while there are policies
-- @key parked zset partition -> wake time (ms), "" for the queue
-- @arg echo str
-- @arg replay int how many times this call was sent before
-- @arg partition str "" for the queue
-- @arg budget str triggers that may stand, when one counts as lost (ms), prefix of new ids; "" for none
-- @arg channel str wake channel, "" for none
-- @arg hint str what to publish there
-- @rest changes field, value; "-" to leave it to the default, a hold as ms from now
-- @include now_ms
-- @include check_schema
-- @include write_first
-- @include count_running
-- @include keep_schema
-- @include reconsider
-- @include rest
-- @include next_wake
-- @include send_triggers
-- @return {"set", echo, now, triggers, waiting, next wake} | {"policy", echo, now, 0, 0, "", field, value} | {"schema", echo, found}
-- @optional clpr
-- @cost O(log partitions); for the queue O(partitions that run or are parked)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
write_first()
local now, words, places = now_ms(), {}, {}
for word in string.gmatch(redis.call("HGET", POLICY, partition) or "", "%S+") do
  words[#words + 1] = word
end
for at = 1, partition == "" and #FIELDS or OWN + 1 do
  places[FIELDS[at]] = at
  words[at] = words[at] or "-"
end
for at = changes, #ARGV, 2 do
  local field, value = ARGV[at], ARGV[at + 1]
  local number = string.match(value, "^%d[%d.e+-]*$") and tonumber(value)
  local is_word = (field == "by" or field == "total_by" or field == "charge") and string.match(value, "^%l+$")
  if not places[field] or not (value == "-" or number or is_word)
    or field == "share" and number and (number < SHARE_LEAST or number > SHARE_MOST) then
    return { "policy", echo, now, 0, 0, "", field, value }
  end
  if field == "hold" and number then
    value = number > 0 and string.format("%.0f", now + number) or "-"
  end
  words[places[field]] = value
  if field == "charge" then
    uses["r"] = value == "runtime" or nil
  end
end
if string.find(table.concat(words), "[^-]") then
  redis.call("HSET", POLICY, partition, table.concat(words, " "))
  if not uses.p then
    count_running()
  end
  keep_schema("p")
elseif redis.call("HDEL", POLICY, partition) == 1 then
  keep_schema()
end
if partition ~= "" then
  reconsider(partition)
else
  redis.call("ZREM", PARKED, "")
  for _, each in ipairs(redis.call("HKEYS", RUNNING)) do
    reconsider(each)
  end
  for _, each in ipairs(redis.call("ZRANGE", PARKED, 0, MOST_UNPACK - 1)) do -- others wake in their time
    reconsider(each)
  end
end
rest()
if channel ~= "" then
  redis.call("PUBLISH", channel, hint)
end
local triggers, backlog = send_triggers(now, budget, replay)
return { "set", echo, now, triggers, backlog, next_wake() }
