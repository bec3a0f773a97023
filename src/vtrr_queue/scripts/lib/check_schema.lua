--- Refuse keys of another layout, and see which optional features this queue uses.
-- The letters after the layout number: c cancels, d delays, l priority levels, p policies, r runtime
-- charge. A queue pays for what it uses: its scripts leave out what is marked `@optional` for other
-- letters.
-- @include judge_schema
-- @return nil when the keys are ours or there are none, else the layout found ("" for none)
local uses = OUR_USES
local function check_schema(found)
  if found ~= OUR_SCHEMA then
    uses = {}
    if found ~= EXPECTED_SCHEMA then
      return judge_schema(found, uses)
    end
  end
  return nil
end
