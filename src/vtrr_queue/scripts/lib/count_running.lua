--- Count the leases of each partition, for a queue that has had no policy so far.
-- @rare
-- @key lease hash token -> lease record
-- @key running hash partition -> leases held, while there are policies
-- @include read_lease
local function count_running()
  redis.call("DEL", RUNNING)
  for _, text in ipairs(redis.call("HVALS", LEASE)) do
    local _, partition = read_lease(text)
    redis.call("HINCRBY", RUNNING, partition, 1)
  end
end
