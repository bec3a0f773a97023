--- Lease the next items in fair order; expired leases and due delayed items are looked at first.
-- A repeated call with the same tokens returns what they hold and leases nothing new.
-- @key schema string layout number and letters
-- @key queue zset partition -> start tag
-- @arg echo str the first token
-- @arg replay int how many times this call was sent before
-- @arg valid_until int refuse to run after this server time, ms; 0 for always
-- @arg lease_ms int > 0
-- @arg holder str who will run the items
-- @arg position str back | front, where expired items go
-- @arg bounds str most timeouts, most dead letters, their longest age (ms); 0 timeouts for no end
-- @arg trigger_id str trigger that caused the call, "" for none
-- @arg pulled int 1 when a worker comes without a trigger
-- @arg budget str triggers that may stand, when one counts as lost (ms), prefix of new ids; "" for none
-- @rest tokens one for each item wanted
-- @include now_ms
-- @include check_schema
-- @include take_trigger
-- @include look
-- @include promote
-- @include unpark
-- @include room
-- @include clock
-- @include rebase
-- @include serve
-- @include leased_before
-- @include next_wake
-- @include send_triggers
-- @return {"leased", echo, now, triggers, waiting, next wake, earliest expiry, (item_id, record)... in the order of the tokens} | {"empty", echo, now, triggers, waiting, next wake} | {"late", echo, now} | {"schema", echo, found}
-- @cost O(log partitions + log leases) an item
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
local now = now_ms()
if valid_until > 0 and now > valid_until then
  return { "late", echo, now }
end
if trigger_id ~= "" or pulled == 1 then
  take_trigger(trigger_id, now, budget)
end
look(now, MOST_LOOKS, position, bounds)
if uses.d then
  promote(now, MOST_LOOKS)
end
if uses.p then
  unpark(now, MOST_LOOKS + #ARGV - tokens + 1)
end

local items, virtual, expiry = {}, clock(), now + lease_ms
local earliest = expiry
if virtual > REBASE_AT then
  virtual = rebase(virtual)
end
for at = tokens, #ARGV do
  local token, item_id, text, until_ms = ARGV[at]
  if not uses.p or room(now) > 0 then
    virtual, item_id, text = serve(token, virtual, now, expiry, holder)
  end
  if not text then -- nothing is servable, or the token has its item already
    item_id, until_ms, text = leased_before(token)
  end
  if not text then
    break
  end
  earliest = until_ms and math.min(earliest, until_ms) or earliest
  items[#items + 1], items[#items + 2] = item_id, text
end

local triggers, backlog = 0, 0
if budget ~= "" then
  triggers, backlog = send_triggers(now, budget, replay)
end
if #items == 0 then
  local skips_left = uses.c and redis.call("EXISTS", QUEUE) == 1 and (not uses.p or room(now) > 0)
  return { "empty", echo, now, triggers, backlog, skips_left and string.format("%.0f", now) or next_wake() }
end
local wake = uses.p and #items / 2 <= #ARGV - tokens and next_wake() or "" -- slots stay free until then
return { "leased", echo, now, triggers, backlog, wake, earliest, unpack(items) }
