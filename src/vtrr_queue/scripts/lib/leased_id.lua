--- The item of a lease record; the rest of it is read only where it matters.
local function leased_id(text)
  local length, at = string.match(text, "^%d+ %S+ %d+ (%d+) %d+ ()")
  return string.sub(text, at, at + length - 1)
end
