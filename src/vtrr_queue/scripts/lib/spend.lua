--- Count a serve against a rate: its theoretical arrival time moves on (GCRA, ITU-T I.371).
-- @key rate zset partition -> theoretical arrival time (ms), "" for the queue
-- @optional p
local function spend(partition, interval, by, weight, now)
  if interval > 0 then
    redis.call("ZREMRANGEBYSCORE", RATE, "-inf", now)
    local arrival = math.max(now, tonumber(redis.call("ZSCORE", RATE, partition) or 0))
    redis.call("ZADD", RATE, arrival + interval * (by == "weight" and weight or 1), partition)
  end
end
