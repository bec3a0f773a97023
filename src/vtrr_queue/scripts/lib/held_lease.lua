--- Find a live lease by its token.
-- @include read_lease
-- @key lease hash token -> lease record
-- @return item_id, partition, start, charge, expiry, holder; nil when the token holds nothing
local function held_lease(token)
  local text = redis.call("HGET", LEASE, token)
  if not text then
    return nil
  end
  return read_lease(text)
end
