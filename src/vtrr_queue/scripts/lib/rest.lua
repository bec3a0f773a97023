--- When no record is left, forget every scheduling key.
-- @key task hash item_id -> record
-- @include forget
local function rest()
  if redis.call("EXISTS", TASK) == 0 then
    forget()
  end
end
