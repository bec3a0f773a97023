--- Take a task record apart.
-- @return weight, timeouts, retries, since (strings), partition, body
local function read_record(text)
  local weight, timeouts, retries, since, length, at = string.match(text, "^(%S*) (%d*) (%d*) (%x*) (%d+) ()")
  return weight ~= "" and weight or "1", timeouts ~= "" and timeouts or "0", retries ~= "" and retries or "0",
    since, string.sub(text, at, at + length - 1), string.sub(text, at + length)
end
