--- Look at marks: "weight[@level][+delay (ms)]".
-- @rare
-- @include is_weight
-- @return place of the first that is none; nil, whether a mark names a level
local function judge_marks(marks)
  local has_levels = nil
  for n, mark in ipairs(marks) do
    if mark ~= "1" and not is_weight(string.match(mark, "^[^+]*")) then
      return n
    end
    has_levels = has_levels or string.find(mark, "@", 1, true) ~= nil or nil
  end
  return nil, has_levels
end
