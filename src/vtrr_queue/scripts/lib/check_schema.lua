--- Refuse keys of another layout, and see which optional features this queue uses.
-- The letters after the layout number: c cancels, l priority levels, p policies, r runtime charge.
-- A queue that uses none pays for none: its scripts leave out what is marked `@optional`.
-- @key schema string layout number and letters
-- @key queue zset partition -> start tag
-- @key task hash item_id -> record
-- @key inflight zset token -> next look (ms)
-- @key partition_virtual_time zset partition -> tag
-- @key current_virtual_time string clock
-- @return nil when the keys are ours or there are none, else the layout found ("" for none)
local uses = {}
local function check_schema()
  local found = redis.call("GET", SCHEMA)
  if found == EXPECTED_SCHEMA then
    return nil
  end
  if found then
    if not FULL and string.find(found, "^" .. EXPECTED_SCHEMA .. "[clpr]+$") then
      return "options" -- the caller sends the script again with the parts for them
    end
    local letters = string.match(found, "^" .. EXPECTED_SCHEMA .. "([clpr]+)$")
    for letter in string.gmatch(letters or "", ".") do
      uses[letter] = true
    end
    return not letters and found or nil
  end
  local foreign = redis.call("EXISTS", QUEUE, TASK, INFLIGHT, PARTITION_VIRTUAL_TIME, CURRENT_VIRTUAL_TIME)
  return foreign > 0 and "" or nil
end
