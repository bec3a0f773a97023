--- Wake the partitions whose time has come, and forget holds that are over.
-- @key parked zset partition -> wake time (ms)
-- @key policy hash partition -> policy
-- @include policy_of
-- @include waits
-- @include enter
-- @return how many were woken
-- @optional p
local function unpark(now, limit)
  local due = redis.call("ZRANGEBYSCORE", PARKED, "-inf", now, "LIMIT", 0, limit)
  for _, partition in ipairs(due) do
    redis.call("ZREM", PARKED, partition)
    local hold = policy_of(partition).hold
    if partition ~= "" and hold > 0 and hold <= now then
      local text = string.gsub(redis.call("HGET", POLICY, partition), "%S+$", "-")
      if string.find(text, "[^- ]") then
        redis.call("HSET", POLICY, partition, text)
      else
        redis.call("HDEL", POLICY, partition)
      end
    end
    if partition ~= "" and waits(partition) > 0 then
      enter(partition)
    end
  end
  return #due
end
