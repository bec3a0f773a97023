--- Take the next item of a partition out of its backlog.
-- @key backlog list waiting item ids
-- @key task hash item_id -> record
-- @include front
-- @include cut
-- @include skip_cancelled
-- @return item_id, record; nil when the front held what is no item any more
-- @optional cl
local function take_first(partition)
  local list, level = BACKLOG .. ":" .. partition
  if uses.l then
    list, level = front(partition)
  end
  local item_id = redis.call("LINDEX", list, 0)
  local text = item_id and redis.call("HGET", TASK, item_id)
  if uses.c and item_id and not text then
    skip_cancelled(partition)
  elseif level then
    cut(list, partition, level, 1)
  else
    redis.call("LPOP", list)
  end
  return text and item_id, text
end
