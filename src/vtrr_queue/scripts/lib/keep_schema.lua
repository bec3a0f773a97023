--- Write the layout number, with the letters of the features in use and perhaps one more.
-- @key schema string layout number and letters
-- @key rate zset partition -> theoretical arrival time (ms)
local function keep_schema(letter)
  if letter then
    uses[letter] = true
  end
  local text = EXPECTED_SCHEMA
  if next(uses) then
    for _, each in ipairs({ "c", "l", "p", "r" }) do
      text = text .. (uses[each] and each or "")
    end
    redis.call("PERSIST", RATE) -- at rest it has a time to live
  end
  redis.call("SET", SCHEMA, text)
end
