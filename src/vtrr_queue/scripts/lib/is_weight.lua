--- Whether a text is a weight: a plain decimal number, for `tonumber` takes inf, nan and 0x10 too.
-- A priority other than the default may follow, as in "2.5@0".
local function is_weight(text)
  local number, level = string.match(text, "^(%d[%d.e+-]*)(.*)$")
  local weight = tonumber(number or "")
  return weight and weight >= WEIGHT_LEAST and weight <= WEIGHT_MOST and (level == "" or string.match(level, "^@%d$"))
end
