--- Find a live lease by its token.
-- @key lease hash token -> lease record
-- @return item_id, partition, start, charge, expiry, holder; nil when the token holds nothing
local function held_lease(token)
  local text = redis.call("HGET", LEASE, token)
  if not text then
    return nil
  end
  local start, charge, expiry, id_length, partition_length, at =
    string.match(text, "^(%d+) (%S+) (%d+) (%d+) (%d+) ()")
  local middle = at + id_length
  local last = middle + partition_length
  return string.sub(text, at, middle - 1), string.sub(text, middle, last - 1),
    start, charge, expiry, string.sub(text, last)
end
