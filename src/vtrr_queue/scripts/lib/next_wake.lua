--- Earliest time at which something changes by itself.
-- @key inflight zset token -> next look (ms)
-- @key delayed zset item_id -> due time (ms) and place among equal ones
-- @key parked zset partition -> wake time (ms)
-- @return ms as a string, "" when nothing will
local function next_wake()
  local least = nil
  for _, key in ipairs({ INFLIGHT, DELAYED, PARKED }) do
    local first = redis.call("ZRANGE", key, 0, 0, "WITHSCORES")
    if first[2] and (not least or tonumber(first[2]) < least) then
      least = tonumber(first[2])
    end
  end
  return least and string.format("%.0f", math.floor(least)) or ""
end
