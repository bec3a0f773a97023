--- Count a serve against a rate: its theoretical arrival time moves on (GCRA, ITU-T I.371).
-- @key rate zset partition -> theoretical arrival time (ms), "" for the queue
-- @include arrival
-- @optional p
local function spend(partition, interval, tolerance, by, weight, now)
  if interval > 0 then
    redis.call("ZREMRANGEBYSCORE", RATE, "-inf", now)
    local from = math.max(now, arrival(partition, interval, tolerance, by, now))
    redis.call("PERSIST", RATE) -- at rest it has a time to live
    redis.call("ZADD", RATE, from + interval * (by == "weight" and weight or 1), partition)
  end
end
