--- Keep an item in the delayed set until its time; equal times keep the order of the calls.
-- The fraction of the score is the item's place among equal ones: a double of this size has
-- room for 1/4096 ms. Without it the set would order them by id.
-- @key delayed zset item_id -> due time (ms) and place among equal ones
-- @rare
local function set_aside(item_id, due)
  local last = redis.call("ZREVRANGEBYSCORE", DELAYED, string.format("(%.0f", due + 1), due, "WITHSCORES", "LIMIT", 0, 1)[2]
  redis.call("ZADD", DELAYED, last and math.min(last + 1 / 4096, due + 4095 / 4096) or due, item_id)
end
