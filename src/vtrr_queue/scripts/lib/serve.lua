--- Lease the oldest item of the partition with the lowest start tag.
-- @key queue zset partition -> start tag
-- @key task hash item_id -> record
-- @key running hash partition -> leases held
-- @key backlog list waiting item ids
-- @include hold_lease
-- @include advance
-- @include keep_tag
-- @return the clock, item_id, record; the clock alone when nothing is servable
local function serve(token, virtual, now, expiry, holder)
  for _ = 1, MOST_SKIPS do
    local first = redis.call("ZRANGE", QUEUE, 0, 0, "WITHSCORES")
    local partition, tag = first[1], tonumber(first[2])
    if not partition then
      return virtual
    end
    local backlog = BACKLOG .. ":" .. partition
    local item_id = redis.call("LINDEX", backlog, 0)
    local text = item_id and redis.call("HGET", TASK, item_id)
    if text then
      local weight = string.match(text, "^%S+")
      hold_lease(token, item_id, partition, now, weight, expiry, holder)
      redis.call("HINCRBY", RUNNING, partition, 1)
      virtual = advance(virtual, tag)
      tag = tag + tonumber(weight)
    end
    redis.call("LPOP", backlog)
    keep_tag(partition, tag, virtual, redis.call("EXISTS", backlog) == 1)
    if text then
      return virtual, item_id, text
    end
  end
  return virtual
end
