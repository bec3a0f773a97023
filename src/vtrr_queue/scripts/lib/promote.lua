--- Move delayed items whose time has come to the end of their partition's backlog.
-- @key delayed zset item_id -> due time (ms) and place among equal ones
-- @key backlog list waiting item ids
-- @key task hash item_id -> record
-- @include read_record
-- @include write_first
-- @include push
-- @include enter
-- @optional d
-- @return how many were moved
local function promote(now, limit)
  local due = redis.call("ZRANGEBYSCORE", DELAYED, "-inf", string.format("(%.0f", now + 1), "LIMIT", 0, limit)
  if #due > 0 then
    write_first()
  end
  for _, item_id in ipairs(due) do
    local text = redis.call("HGET", TASK, item_id)
    if text then
      local _, _, _, _, partition = read_record(text)
      if uses.l then
        push(partition, item_id, text, "back")
      else
        redis.call("RPUSH", BACKLOG .. ":" .. partition, item_id)
      end
      enter(partition)
    end
    redis.call("ZREM", DELAYED, item_id)
  end
  return #due
end
