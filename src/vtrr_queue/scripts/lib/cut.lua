--- Take so many ids from the front of a list.
-- @include set_level
-- @optional cl
local function cut(list, partition, level, count)
  redis.call("LTRIM", list, count, -1)
  if level and redis.call("EXISTS", list) == 0 then
    set_level(partition, level, false)
  end
end
