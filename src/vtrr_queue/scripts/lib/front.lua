--- The list whose first item is the partition's next.
-- @key backlog list waiting item ids
-- @key level list waiting item ids of one priority
-- @key levels hash partition -> priorities in use, other than the default
-- @return its key, its priority; nil for the default one
-- @optional l
local function front(partition)
  local list = BACKLOG .. ":" .. partition
  local level = string.match(redis.call("HGET", LEVELS, partition) or "", "^%d")
  if level and (level < DEFAULT_LEVEL or redis.call("EXISTS", list) == 0) then
    return LEVEL .. ":" .. level .. ":" .. partition, level
  end
  return list
end
