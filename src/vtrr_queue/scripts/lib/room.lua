--- How many more items the queue as a whole may lease now; when it must wait for a time, "" is parked.
-- @key queue zset partition -> start tag
-- @key inflight zset token -> next look (ms)
-- @key parked zset partition -> wake time (ms)
-- @include policy_of
-- @include arrival
-- @optional p
local function room(now)
  local queue = policy_of("")
  if queue.paused == 1 then
    return 0
  end
  local wake = queue.hold
  if queue.total_interval > 0 then
    local due = arrival("", queue.total_interval, queue.total_tolerance, queue.total_by, now)
    wake = math.max(wake, due - queue.total_tolerance)
  end
  if wake > now then
    if redis.call("EXISTS", QUEUE) == 1 then
      redis.call("ZADD", PARKED, math.ceil(wake), "")
    end
    return 0
  end
  return queue.max_in_flight > 0 and queue.max_in_flight - redis.call("ZCARD", INFLIGHT) or math.huge
end
