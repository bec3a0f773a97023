--- A moment as task records keep it: hexadecimal milliseconds, which are two bytes shorter.
local function format_since(ms)
  return string.format("%x", ms)
end
