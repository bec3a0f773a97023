--- Correct the charge of a run that is over to the time it took, and learn from it.
-- @key estimate hash partition -> mean run time (ms), "" for all partitions
-- @include add_charge
-- @optional r
local function settle(partition, start, charge, ended, learns)
  local charged, share = string.match(charge, "^([^/]+)/?(.*)$")
  local actual = math.max(1, ended - start)
  add_charge(partition, (actual - charged) / (tonumber(share) or 1))
  if not learns then
    return
  end
  local means = redis.call("HMGET", ESTIMATE, partition, "")
  for n, field in ipairs({ partition, "" }) do
    local mean = tonumber(means[n] or actual)
    redis.call("HSET", ESTIMATE, field, mean + (actual - mean) * ESTIMATE_STEP)
  end
  if redis.call("HLEN", ESTIMATE) > MOST_ESTIMATES then
    local any = redis.call("HRANDFIELD", ESTIMATE)
    if any ~= "" then
      redis.call("HDEL", ESTIMATE, any)
    end
  end
end
