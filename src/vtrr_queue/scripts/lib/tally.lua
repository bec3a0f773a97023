--- Count what only a script sees, where workers keep statistics.
-- @key stats hash name -> total, or "wait|run:<bucket>" -> how many
-- @rare
local function tally(name)
  if redis.call("EXISTS", STATS) == 1 then
    redis.call("HINCRBY", STATS, name, 1)
  end
end
