--- How many items of a partition wait.
-- @key backlog list waiting item ids
-- @key level list waiting item ids of one priority
-- @key levels hash partition -> priorities in use, other than the default
-- @key holes hash partition -> ids in its backlogs that were cancelled
-- @optional clp
local function waits(partition)
  local count = redis.call("LLEN", BACKLOG .. ":" .. partition)
  if uses.l then
    for level in string.gmatch(redis.call("HGET", LEVELS, partition) or "", ".") do
      count = count + redis.call("LLEN", LEVEL .. ":" .. level .. ":" .. partition)
    end
  end
  if uses.c then
    count = count - (redis.call("HGET", HOLES, partition) or 0)
  end
  return count
end
