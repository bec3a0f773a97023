--- Count the leases of each partition, for a queue that has had no policy so far.
-- @rare
-- @key lease hash token -> lease record
-- @key running hash partition -> leases held, while there are policies
-- @include held_lease
local function count_running()
  redis.call("DEL", RUNNING)
  for _, token in ipairs(redis.call("HKEYS", LEASE)) do
    local _, partition = held_lease(token)
    redis.call("HINCRBY", RUNNING, partition, 1)
  end
end
