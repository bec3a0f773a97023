--- Put a leased item back into its partition's backlog; the run's charge stands.
-- @key task hash item_id -> record
-- @key backlog list waiting item ids
-- @include read_record
-- @include record
-- @include drop_lease
-- @include enter
local function put_back(token, item_id, partition, timed_out, position)
  local text = redis.call("HGET", TASK, item_id)
  if text then
    if timed_out then
      local weight, timeouts, retries, _, body = read_record(text)
      redis.call("HSET", TASK, item_id, record(weight, timeouts + 1, retries, partition, body))
    end
    redis.call(position == "front" and "LPUSH" or "RPUSH", BACKLOG .. ":" .. partition, item_id)
    enter(partition)
  end
  drop_lease(token, partition)
end
