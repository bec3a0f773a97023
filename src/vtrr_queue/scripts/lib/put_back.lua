--- Put a leased item back into its partition's backlog; the run's charge stands.
-- `loss` is nil, or for a run that counts as a timeout: its start, why it ended, now, and the bounds.
-- @key task hash item_id -> record
-- @key backlog list waiting item ids
-- @include count_timeout
-- @include drop_lease
-- @include enter
-- @include rest
-- @return whether the item lives on; otherwise it is a dead letter now
local function put_back(token, item_id, partition, position, loss)
  local text = redis.call("HGET", TASK, item_id)
  local lives = text and (not loss or count_timeout(item_id, text, loss))
  if lives then
    redis.call(position == "front" and "LPUSH" or "RPUSH", BACKLOG .. ":" .. partition, item_id)
    enter(partition)
  end
  drop_lease(token, partition)
  if not lives then
    rest()
  end
  return lives
end
