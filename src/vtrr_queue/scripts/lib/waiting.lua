--- Items in the backlogs: all records less those leased and those delayed.
-- @key task hash item_id -> record
-- @key inflight zset token -> next look (ms)
-- @key delayed zset item_id -> due time (ms)
local function waiting()
  return redis.call("HLEN", TASK) - redis.call("ZCARD", INFLIGHT) - (uses.d and redis.call("ZCARD", DELAYED) or 0)
end
