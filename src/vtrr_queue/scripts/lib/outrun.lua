--- A run takes longer than it was charged for: double its charge until that covers the time.
-- Charging ahead keeps unknown run times fair (design.md, section 3).
-- @include add_charge
-- @include hold_lease
-- @optional r
local function outrun(token, item_id, partition, start, charge, expiry, holder, now)
  local charged, share = string.match(charge, "^([^/]+)/?(.*)$")
  local grown = tonumber(charged)
  while grown <= now - start do
    grown = grown * 2
  end
  add_charge(partition, (grown - charged) / (tonumber(share) or 1))
  charge = string.format("%.17g/%s", grown, share ~= "" and share or "1")
  hold_lease(token, item_id, partition, start, charge, tonumber(expiry), holder)
end
