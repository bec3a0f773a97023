--- Refuse keys of another layout.
-- @key schema string layout number
-- @key queue zset partition -> start tag
-- @key task hash item_id -> record
-- @key inflight zset token -> next look (ms)
-- @key partition_virtual_time zset partition -> tag
-- @key current_virtual_time string clock
-- @return nil when the keys are ours or there are none, else the layout found ("" for none)
local function check_schema()
  local found = redis.call("GET", SCHEMA)
  if found == EXPECTED_SCHEMA then
    return nil
  end
  if found then
    return found
  end
  local foreign = redis.call("EXISTS", QUEUE, TASK, INFLIGHT, PARTITION_VIRTUAL_TIME, CURRENT_VIRTUAL_TIME)
  return foreign > 0 and "" or nil
end
