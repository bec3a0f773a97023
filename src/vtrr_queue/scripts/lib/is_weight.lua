--- Whether a text is a weight: a plain decimal number, for `tonumber` takes inf, nan and 0x10 too.
local function is_weight(text)
  local weight = string.match(text, "^%d[%d.e+-]*$") and tonumber(text)
  return weight and weight >= WEIGHT_LEAST and weight <= WEIGHT_MOST
end
