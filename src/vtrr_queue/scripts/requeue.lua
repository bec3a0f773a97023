--- Make dead letters items again, with nothing counted, at the end of their partition's backlog.
-- @key schema string layout number and letters
-- @key task hash item_id -> record
-- @key backlog list waiting item ids
-- @key dead hash item_id -> letter
-- @key dead_index zset item_id -> time of death (ms)
-- @arg echo str
-- @arg replay int how many times this call was sent before
-- @arg only str take letters of this partition, "" for any
-- @arg budget str triggers that may stand, when one counts as lost (ms), prefix of new ids; "" for none
-- @arg channel str wake channel, "" for none
-- @rest item_ids at most MOST_UNPACK
-- @include now_ms
-- @include check_schema
-- @include write_first
-- @include read_letter
-- @include read_record
-- @include record
-- @include push
-- @include enter
-- @include keep_schema
-- @include send_triggers
-- @return {"requeued", echo, now, triggers, waiting, "", item_id...} | {"schema", echo, found}
-- @cost O(ids)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
write_first()
local now, reply = now_ms(), {}
for at = item_ids, #ARGV do
  local item_id = ARGV[at]
  local text = read_letter(item_id)
  if text then
    local weight, _, _, _, partition, body = read_record(text)
    if only == "" or only == partition then
      text = record(weight, 0, 0, now, partition, body)
      if redis.call("HSETNX", TASK, item_id, text) == 1 then
        if uses.l then
          push(partition, item_id, text, "back")
        else
          redis.call("RPUSH", BACKLOG .. ":" .. partition, item_id)
        end
        enter(partition)
      end
      redis.call("HDEL", DEAD, item_id)
      redis.call("ZREM", DEAD_INDEX, item_id)
      reply[#reply + 1] = item_id
    end
  elseif replay > 0 and redis.call("HEXISTS", TASK, item_id) == 1 then
    reply[#reply + 1] = item_id
  end
end
if #reply > 0 then
  keep_schema()
  if channel ~= "" then
    redis.call("PUBLISH", channel, "ready")
  end
end
local triggers, backlog = send_triggers(now, budget, replay)
return { "requeued", echo, now, triggers, backlog, "", unpack(reply, 1, math.min(#reply, MOST_UNPACK)) }
