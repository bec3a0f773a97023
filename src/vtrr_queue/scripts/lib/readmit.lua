--- Let a partition in again that has something waiting, when a lease of it has ended.
-- @include waits
-- @include enter
-- @optional p
local function readmit(partition)
  if waits(partition) > 0 then
    enter(partition)
  end
end
