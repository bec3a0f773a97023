--- Forget dead letters beyond the bounds, the oldest first, a bounded number at once.
-- @key dead hash item_id -> letter
-- @key dead_index zset item_id -> time of death (ms)
-- @return how many went
local function trim_letters(now, bounds)
  local most, age = string.match(bounds, "^%d+ (%d+) (%d+)$")
  local gone = redis.call("ZRANGEBYSCORE", DEAD_INDEX, "-inf", string.format("(%.0f", now - age), "LIMIT", 0, MOST_TRIM)
  local over = math.min(redis.call("ZCARD", DEAD_INDEX) - most, MOST_TRIM)
  if over > #gone then
    gone = redis.call("ZRANGE", DEAD_INDEX, 0, over - 1)
  end
  if #gone > 0 then
    redis.call("ZREM", DEAD_INDEX, unpack(gone))
    redis.call("HDEL", DEAD, unpack(gone))
  end
  return #gone
end
