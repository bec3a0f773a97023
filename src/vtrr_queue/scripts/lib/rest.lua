--- When no record is left, forget every scheduling key: an idle queue holds no state.
-- @key queue zset partition -> start tag
-- @key current_virtual_time string clock
-- @key partition_virtual_time zset partition -> tag
-- @key task hash item_id -> record
-- @key inflight zset token -> next look (ms)
-- @key lease hash token -> lease record
-- @key running hash partition -> leases held
-- @key parked zset partition -> wake time (ms)
-- @key delayed zset item_id -> due time (ms)
-- @key estimate hash partition -> estimated charge
-- @key dead hash item_id -> letter
-- @key policy hash partition -> policy
-- @key schema string layout number
local function rest()
  if redis.call("EXISTS", TASK) == 1 then
    return
  end
  redis.call("DEL", QUEUE, CURRENT_VIRTUAL_TIME, PARTITION_VIRTUAL_TIME, INFLIGHT, LEASE, RUNNING,
    PARKED, DELAYED, ESTIMATE)
  if redis.call("EXISTS", DEAD, POLICY) == 0 then
    redis.call("DEL", SCHEMA)
  end
end
