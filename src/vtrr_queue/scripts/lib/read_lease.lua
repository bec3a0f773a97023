--- Take a lease record apart, as `hold_lease` writes it.
-- @return item_id, partition, start, charge, expiry, holder
local function read_lease(text)
  local start, charge, expiry, id_length, partition_length, at =
    string.match(text, "^(%d+) (%S+) (%d+) (%d+) (%d+) ()")
  local middle = at + id_length
  local last = middle + partition_length
  return string.sub(text, at, middle - 1), string.sub(text, middle, last - 1),
    start, charge, expiry, string.sub(text, last)
end
