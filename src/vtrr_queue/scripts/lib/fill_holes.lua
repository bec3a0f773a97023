--- Forget cancelled ids that have left a partition's backlogs.
-- @key cancelled hash item_id -> partition of a waiting one, "" for a running one
-- @key holes hash partition -> ids in its backlogs that were cancelled
-- @optional c
local function fill_holes(partition, ids)
  local count = 0
  for at = 1, #ids do
    count = count + redis.call("HDEL", CANCELLED, ids[at])
  end
  if count > 0 and redis.call("HINCRBY", HOLES, partition, -count) <= 0 then
    redis.call("HDEL", HOLES, partition)
  end
end
