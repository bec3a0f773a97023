--- What a partition may do: its own policy, and the queue's defaults for what that leaves open.
-- A policy is a text of words in the order of FIELDS, "-" for open; a limit of 0 is none. What is OWN
-- and comes after is not inherited.
-- The field "" has the defaults, and after them what the queue as a whole may do.
-- @key policy hash partition -> policy
-- @optional pr
local PLAIN = {
  share = 1, cap = 0, interval = 0, tolerance = 0, by = "items", backlog = 0, paused = 0, hold = 0,
  max_in_flight = 0, total_interval = 0, total_tolerance = 0, total_by = "items",
}
local policies = {}
local function policy_of(partition)
  local policy = policies[partition]
  if policy then
    return policy
  end
  policy = setmetatable({}, { __index = PLAIN })
  for n, text in ipairs(redis.call("HMGET", POLICY, "", partition)) do
    local at = 0
    for word in string.gmatch(text or "", "%S+") do
      at = at + 1
      if word ~= "-" and (at < OWN or n == 2) then
        policy[FIELDS[at]] = tonumber(word) or word
      end
    end
  end
  policies[partition] = policy
  return policy
end
