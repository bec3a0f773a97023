--- What a lease record says for policies and charges.
-- @include read_lease
-- @return partition, start, charge
-- @optional pr
local function lease_terms(text)
  local _, partition, start, charge = read_lease(text)
  return partition, start, charge
end
