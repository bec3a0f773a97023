--- Make an item a dead letter: "died-at note-length note record".
-- The note is "reason \0 exception \0 traceback \0 start of the last run (ms)".
-- @key task hash item_id -> record
-- @key dead hash item_id -> letter
-- @key dead_index zset item_id -> time of death (ms)
-- @include keep_schema
-- @include trim_letters
-- @include tally
local function make_letter(item_id, text, now, note, bounds)
  redis.call("HSET", DEAD, item_id, string.format("%.0f %d ", now, #note) .. note .. text)
  redis.call("ZADD", DEAD_INDEX, now, item_id)
  redis.call("HDEL", TASK, item_id)
  tally("dead")
  if not uses.x then
    keep_schema("x")
  end
  trim_letters(now, bounds)
end
