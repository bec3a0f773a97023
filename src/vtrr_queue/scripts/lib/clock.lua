--- The queue's virtual time: highest start tag served in this busy period.
-- @key current_virtual_time string clock
local function clock()
  return tonumber(redis.call("GET", CURRENT_VIRTUAL_TIME) or 0)
end
