--- What a serve is charged ahead: its weight, or the time (ms) it is expected to take.
-- A weight that was given is the expected time in seconds; the text "1" stands for none.
-- @key estimate hash partition -> mean run time (ms), "" for all partitions
-- @return the charge, its text for the lease
-- @optional r
local function charge_of(partition, weight, share)
  local charge = weight ~= "1" and weight * 1000
  if not charge then
    local means = redis.call("HMGET", ESTIMATE, partition, "")
    charge = tonumber(means[1] or means[2] or FIRST_CHARGE)
  end
  charge = math.max(1, charge)
  return charge, string.format("%.17g/%.17g", charge, share)
end
