--- Forget every scheduling key: an idle queue holds no state but policies.
-- @rare
-- What partitions have used of their rates outlives that, as long as it matters and a minute.
-- @key queue zset partition -> start tag
-- @key current_virtual_time string clock
-- @key partition_virtual_time zset partition -> tag
-- @key inflight zset token -> next look (ms)
-- @key lease hash token -> lease record
-- @key running hash partition -> leases held, while there are policies
-- @key parked zset partition -> wake time (ms)
-- @key estimate hash partition -> mean run time (ms)
-- @key levels hash partition -> priorities in use
-- @key cancelled hash item_id -> partition
-- @key holes hash partition -> cancelled ids in its backlogs
-- @key rate zset partition -> theoretical arrival time (ms)
-- @key backlog list waiting item ids
-- @key level list waiting item ids of one priority
-- @key dead hash item_id -> letter
-- @key policy hash partition -> policy
-- @key schema string layout number and letters
-- @include now_ms
local function forget()
  if uses.c then -- nothing but holes can be left in the backlogs
    for _, partition in ipairs(redis.call("HKEYS", HOLES)) do
      for level in string.gmatch(redis.call("HGET", LEVELS, partition) or "", ".") do
        redis.call("UNLINK", LEVEL .. ":" .. level .. ":" .. partition)
      end
      redis.call("UNLINK", BACKLOG .. ":" .. partition)
    end
  end
  redis.call("DEL", QUEUE, CURRENT_VIRTUAL_TIME, PARTITION_VIRTUAL_TIME, INFLIGHT, LEASE)
  if uses.r then
    redis.call("DEL", ESTIMATE)
  end
  if uses.c then
    redis.call("UNLINK", CANCELLED, HOLES)
  end
  if uses.l then
    redis.call("UNLINK", LEVELS)
  end
  if uses.p then
    redis.call("DEL", RUNNING, PARKED)
    local latest = redis.call("ZRANGE", RATE, -1, -1, "WITHSCORES")[2]
    if latest then
      redis.call("PEXPIRE", RATE, math.max(0, math.ceil(latest - now_ms())) + 60000)
    end
  end
  if redis.call("EXISTS", DEAD) == 0 and (not uses.p or redis.call("EXISTS", POLICY) == 0) then
    redis.call("DEL", SCHEMA)
  end
end
