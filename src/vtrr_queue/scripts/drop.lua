--- Forget dead letters.
-- @key schema string layout number and letters
-- @key dead hash item_id -> letter
-- @key dead_index zset item_id -> time of death (ms)
-- @arg echo str
-- @arg replay int how many times this call was sent before
-- @arg only str take letters of this partition, "" for any
-- @rest item_ids
-- @include now_ms
-- @include check_schema
-- @include read_letter
-- @include read_record
-- @include rest
-- @return {"dropped", echo, now, 0, 0, "", item_id...} | {"schema", echo, found}
-- @cost O(ids)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
local reply = {}
for at = item_ids, #ARGV do
  local item_id = ARGV[at]
  local text = read_letter(item_id)
  if text and (only == "" or only == select(5, read_record(text))) then
    redis.call("HDEL", DEAD, item_id)
    redis.call("ZREM", DEAD_INDEX, item_id)
    reply[#reply + 1] = item_id
  elseif replay > 0 and not text then -- gone by the call whose reply was lost, most likely
    reply[#reply + 1] = item_id
  end
end
rest()
return { "dropped", echo, now_ms(), 0, 0, "", unpack(reply, 1, math.min(#reply, MOST_UNPACK)) }
