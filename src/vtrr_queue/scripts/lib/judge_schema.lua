--- Whether a layout is ours although it is not just what this script was made for.
-- @rare
-- @key queue zset partition -> start tag
-- @key task hash item_id -> record
-- @key inflight zset token -> next look (ms)
-- @key partition_virtual_time zset partition -> tag
-- @key current_virtual_time string clock
-- @return nil when it is; "options <letters>" when this script has not the parts for it; the layout
local function judge_schema(found, letters_used)
  if not found then
    local foreign = redis.call("EXISTS", QUEUE, TASK, INFLIGHT, PARTITION_VIRTUAL_TIME, CURRENT_VIRTUAL_TIME)
    return foreign > 0 and "" or nil
  end
  local letters = string.match(found, "^" .. EXPECTED_SCHEMA .. "(%l+)$")
  if not letters or string.find(letters, "[^" .. ALL_OPTIONS .. "]") then
    return found
  end
  for letter in string.gmatch(letters, ".") do
    if not string.find(OPTIONS, letter, 1, true) then
      return "options " .. letters -- the caller sends the script again with the parts for them
    end
    letters_used[letter] = true
  end
  return nil
end
