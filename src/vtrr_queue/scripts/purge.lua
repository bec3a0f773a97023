--- Forget items of a partition that wait, the next ones first, a bounded number at once.
-- @key schema string layout number and letters
-- @key backlog list waiting item ids
-- @key task hash item_id -> record
-- @arg echo str
-- @arg replay int how many times this call was sent before
-- @arg partition str
-- @arg most int most ids to take out of the backlog
-- @include now_ms
-- @include check_schema
-- @include front
-- @include cut
-- @include fill_holes
-- @include reconsider
-- @include rest
-- @return {"purged", echo, now, 0, 0, "", items that went, ids that went} | {"schema", echo, found}
-- @optional clpr
-- @cost O(most)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
local list, level = BACKLOG .. ":" .. partition
if uses.l then
  list, level = front(partition)
end
if replay > 0 then -- what was taken by the call whose reply was lost is not known
  return { "purged", echo, now_ms(), 0, 0, "", 0, redis.call("LLEN", list) > 0 and 1 or 0 }
end
local ids, gone, count = redis.call("LRANGE", list, 0, most - 1), {}, 0
for at = 1, #ids do
  if redis.call("HDEL", TASK, ids[at]) == 1 then
    count = count + 1
  else
    gone[#gone + 1] = ids[at]
  end
end
fill_holes(partition, gone)
cut(list, partition, level, #ids)
reconsider(partition)
rest()
return { "purged", echo, now_ms(), 0, 0, "", count, #ids }
