--- Count a lost run in the item's record; the last one allowed makes it a dead letter.
-- @key task hash item_id -> record
-- @include read_record
-- @include record
-- @include make_letter
-- @include tally
-- @return whether the item lives on
local function count_timeout(item_id, text, loss)
  local weight, timeouts, retries, since, partition, body = read_record(text)
  local count, most = timeouts + 1, tonumber(string.match(loss.bounds, "^%d+"))
  tally("timed_out")
  text = record(weight, count, retries, since, partition, body)
  if most == 0 or count < most then
    redis.call("HSET", TASK, item_id, text)
    return true
  end
  local reason = string.format("max_timeouts: %d lost runs, the last one: ", count) .. loss.why
  make_letter(item_id, text, loss.now, reason .. "\0\0\0" .. loss.start, loss.bounds)
  return false
end
