--- Find the record inside a dead letter, "died-at note-length note record".
-- @key dead hash item_id -> letter
-- @return the record, nil when there is no such letter
local function read_letter(item_id)
  local letter = redis.call("HGET", DEAD, item_id)
  if not letter then
    return nil
  end
  local length, at = string.match(letter, "^%d+ (%d+) ()")
  return string.sub(letter, at + length)
end
