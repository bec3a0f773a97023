--- Take a task record apart, as `record` makes it.
-- @return weight, timeouts, retries (strings), since (ms, nil when not known), partition, body
local function read_record(text)
  local first, b5, b4, b3, b2, b1 = string.byte(text, 1, 6)
  if first >= SHORT_RECORD then
    local since = SHORT_EPOCH + (((b5 * 256 + b4) * 256 + b3) * 256 + b2) * 256 + b1
    local middle = 7 + first - SHORT_RECORD
    return "1", "0", "0", since, string.sub(text, 7, middle - 1), string.sub(text, middle)
  end
  local weight, timeouts, retries, since, length, at = string.match(text, "^(%S*) (%d*) (%d*) (%x*) (%d+) ()")
  return weight ~= "" and weight or "1", timeouts ~= "" and timeouts or "0", retries ~= "" and retries or "0",
    tonumber(since, 16), string.sub(text, at, at + length - 1), string.sub(text, at + length)
end
