--- Tell since when the first item of each of these partitions could be served; nothing is written.
-- @key schema string layout number and letters
-- @key backlog list waiting item ids
-- @key level list waiting item ids of one priority
-- @key levels hash partition -> priorities in use, other than the default
-- @key task hash item_id -> record
-- @arg echo str
-- @rest partitions
-- @read_only
-- @include now_ms
-- @include check_schema
-- @include read_record
-- @return {"fronts", echo, now, 0, 0, "", since...} | {"schema", echo, found}
-- @cost O(partitions)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
local reply = { "fronts", echo, now_ms(), 0, 0, "" }
for at = partitions, #ARGV do
  local partition, least = ARGV[at], nil
  local lists = { BACKLOG .. ":" .. partition }
  if uses.l then
    for level in string.gmatch(redis.call("HGET", LEVELS, partition) or "", ".") do
      lists[#lists + 1] = LEVEL .. ":" .. level .. ":" .. partition
    end
  end
  for _, list in ipairs(lists) do
    local item_id = redis.call("LINDEX", list, 0)
    local text = item_id and redis.call("HGET", TASK, item_id)
    local since = text and select(4, read_record(text))
    if since and (not least or since < least) then
      least = since
    end
  end
  reply[#reply + 1] = least and string.format("%.0f", least) or ""
end
return reply
