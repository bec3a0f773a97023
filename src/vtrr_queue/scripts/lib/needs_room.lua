--- How many items of a call would join the backlog: not those known already, nor delayed ones.
-- @optional p
local function needs_room(fresh, marks, stands)
  for n, mark in ipairs(marks) do
    if stands[n] or string.find(mark, "+", 1, true) then
      fresh = fresh - 1
    end
  end
  return fresh
end
