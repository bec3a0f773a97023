--- The duplicates that a call named which is repeated; its marker is written again.
-- WAIT waits for writes of its own connection only.
-- @rare
-- @return their ids
local function seen_before(marker, text, remember_ms)
  redis.call("SET", marker, text, "PX", remember_ms)
  local last = string.match(text, " (.*)$")
  return last and cjson.decode(last) or {}
end
