--- Put a leased item back into its partition's backlog; one that was cancelled goes for good.
-- `loss` is nil, or for a run that counts as a timeout: its start, why it ended, now, and the bounds.
-- @key backlog list waiting item ids
-- @key task hash item_id -> record
-- @key cancelled hash item_id -> partition of a waiting one, "" for a running one
-- @include count_timeout
-- @include push
-- @include drop_lease
-- @include enter
-- @include rest
-- @return released | buried | cancelled
local function put_back(token, item_id, partition, position, start, charge, ended, loss)
  local text, status = redis.call("HGET", TASK, item_id), "released"
  if uses.c and redis.call("HDEL", CANCELLED, item_id) == 1 or not text then
    redis.call("HDEL", TASK, item_id)
    status = "cancelled"
  elseif loss and not count_timeout(item_id, text, loss) then
    status = "buried"
  elseif uses.l then
    push(partition, item_id, text, position)
  else
    redis.call(position == "front" and "LPUSH" or "RPUSH", BACKLOG .. ":" .. partition, item_id)
  end
  drop_lease(token, partition, start, charge, ended)
  if status == "released" then
    enter(partition)
  else
    rest()
  end
  return status
end
