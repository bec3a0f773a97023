--- Refuse keys of another layout, and see which optional features this queue uses.
-- The letters after the layout number: c cancels, l priority levels, p policies, r runtime charge.
-- A queue pays for what it uses: its scripts leave out what is marked `@optional` for other letters.
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
    local letters = string.match(found, "^" .. EXPECTED_SCHEMA .. "([clpr]+)$")
    for letter in string.gmatch(letters or "", ".") do
      if not string.find(OPTIONS, letter, 1, true) then
        return "options " .. letters -- the caller sends the script again with the parts for them
      end
      uses[letter] = true
    end
    return not letters and found or nil
  end
  local foreign = redis.call("EXISTS", QUEUE, TASK, INFLIGHT, PARTITION_VIRTUAL_TIME, CURRENT_VIRTUAL_TIME)
  return foreign > 0 and "" or nil
end
