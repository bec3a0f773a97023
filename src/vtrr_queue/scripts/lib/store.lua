--- Store the records of items that are not known yet.
-- @key task hash item_id -> record
-- @key dead hash item_id -> letter
-- @key dead_index zset item_id -> time of death (ms)
-- @include record
-- @include close_hole
-- @include push
-- @include set_aside
-- @return ids that stood, ids for the backlog, whether others went to their level, whether some wait
local function store(partition, ids, marks, stands, bodies, several, now)
  local start, start_of_weighted = record("1", 0, 0, now, partition, ""), nil
  local known, fields, ready, pushed, later = {}, {}, {}, false, false
  for n = 1, #ids do
    local item_id, weight, delay = ids[n], marks[n], ""
    if weight ~= "1" then
      weight, delay = string.match(weight, "^([^+]*)%+?(%d*)$")
    end
    if uses.c then
      close_hole(item_id)
    end
    local text
    if delay ~= "" then
      text = record(weight, 0, 0, now + delay, partition, ARGV[bodies + 3 * n])
    elseif weight ~= "1" then
      start_of_weighted = start_of_weighted or record("", 0, 0, now, partition, "")
      text = weight .. start_of_weighted .. ARGV[bodies + 3 * n]
    else
      text = start .. ARGV[bodies + 3 * n]
    end
    local is_new = not stands[n] and not stands[item_id]
    if is_new and several then
      fields[#fields + 1], fields[#fields + 2], stands[item_id] = item_id, text, true
    elseif is_new then
      is_new = redis.call("HSETNX", TASK, item_id, text) == 1
    end
    if not is_new then
      known[#known + 1] = item_id
    elseif delay ~= "" then
      set_aside(item_id, now + delay)
      later = true
    elseif uses.l then
      push(partition, item_id, text, "back")
      pushed = true
    else
      ready[#ready + 1] = item_id
    end
    if uses.x and redis.call("HDEL", DEAD, item_id) == 1 then
      redis.call("ZREM", DEAD_INDEX, item_id)
    end
  end
  if #fields > 0 then
    redis.call("HSET", TASK, unpack(fields))
  end
  return known, ready, pushed, later
end
