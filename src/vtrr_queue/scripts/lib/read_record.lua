--- Take a task record apart.
-- @return weight, timeouts, retries (strings), partition, body
local function read_record(text)
  local weight, timeouts, retries, length, at = string.match(text, "^(%S+) (%d+) (%d+) (%d+) ()")
  return weight, timeouts, retries, string.sub(text, at, at + length - 1), string.sub(text, at + length)
end
