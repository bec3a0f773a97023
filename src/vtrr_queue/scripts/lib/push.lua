--- Put an item at one end of its partition's backlog of its priority.
-- @key backlog list waiting item ids
-- @key level list waiting item ids of one priority
-- @include set_level
-- @optional l
local function push(partition, item_id, text, position)
  local list = BACKLOG .. ":" .. partition
  local level = uses.l and string.match(text, "^%d[^ @]*@(%d)")
  if level then
    list = LEVEL .. ":" .. level .. ":" .. partition
    set_level(partition, level, true)
  end
  redis.call(position == "front" and "LPUSH" or "RPUSH", list, item_id)
end
