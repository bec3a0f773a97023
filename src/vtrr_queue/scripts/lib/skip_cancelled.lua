--- Drop cancelled ids from the front of a partition's backlog, a bounded number at once.
-- @key backlog list waiting item ids
-- @key task hash item_id -> record
-- @include front
-- @include cut
-- @include fill_holes
-- @return how many went
-- @optional c
local function skip_cancelled(partition)
  local list, level = BACKLOG .. ":" .. partition
  if uses.l then
    list, level = front(partition)
  end
  local ids, gone = redis.call("LRANGE", list, 0, MOST_CUT - 1), {}
  while ids[#gone + 1] and redis.call("HEXISTS", TASK, ids[#gone + 1]) == 0 do
    gone[#gone + 1] = ids[#gone + 1]
  end
  if #gone > 0 then
    fill_holes(partition, gone)
    cut(list, partition, level, #gone)
  end
  return #gone
end
