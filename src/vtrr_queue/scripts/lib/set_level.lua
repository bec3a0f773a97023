--- Note that a partition has, or has no longer, something waiting at a priority.
-- @key levels hash partition -> priorities in use, other than the default
-- @optional l
local function set_level(partition, level, on)
  local found = redis.call("HGET", LEVELS, partition) or ""
  local text = ""
  for each in string.gmatch("0123456789", ".") do
    if each == level and on or each ~= level and string.find(found, each, 1, true) then
      text = text .. each
    end
  end
  if text == "" then
    redis.call("HDEL", LEVELS, partition)
  elseif text ~= found then
    redis.call("HSET", LEVELS, partition, text)
  end
end
