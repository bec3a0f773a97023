--- Write the layout number, with the letters of the features in use and perhaps one more.
-- @key schema string layout number and letters
-- @rare
local function keep_schema(letter)
  if letter then
    uses[letter] = true
  end
  local text = EXPECTED_SCHEMA
  for each in string.gmatch(ALL_OPTIONS, ".") do
    text = text .. (uses[each] and each or "")
  end
  redis.call("SET", SCHEMA, text)
end
