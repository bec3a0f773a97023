--- What a token holds since a call whose reply was lost.
-- @rare
-- @key task hash item_id -> record
-- @include held_lease
-- @return item_id, expiry, record; nil when it holds nothing
local function leased_before(token)
  local item_id, _, _, _, expiry = held_lease(token)
  if not item_id then
    return nil
  end
  return item_id, expiry, redis.call("HGET", TASK, item_id)
end
