--- Server time in whole milliseconds; the only clock of every script.
local function now_ms()
  local time = redis.call("TIME")
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
