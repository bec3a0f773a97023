--- The theoretical arrival time of a partition, or of the queue, under the rate it has now.
-- One that lies further ahead than that rate could have put it comes from a slower one before.
-- @key rate zset partition -> theoretical arrival time (ms), "" for the queue
-- @optional p
local function arrival(partition, interval, tolerance, by, now)
  local found = tonumber(redis.call("ZSCORE", RATE, partition) or 0)
  local most = now + tolerance + interval
  if found > most and by ~= "weight" then
    redis.call("ZADD", RATE, most, partition)
    return most
  end
  return found
end
