--- Lease the oldest item of the partition with the lowest start tag.
-- @key queue zset partition -> start tag
-- @key task hash item_id -> record
-- @key backlog list waiting item ids
-- @key running hash partition -> leases held, while there are policies
-- @include take_first
-- @include policy_of
-- @include charge_of
-- @include hold_lease
-- @include advance
-- @include spend
-- @include waits
-- @include may_serve
-- @include keep_tag
-- @include push
-- @return the clock, item_id, record; the clock alone when nothing is servable or the token holds a lease
local function serve(token, virtual, now, expiry, holder)
  local item_id, text
  for _ = 1, MOST_SKIPS do
    local first = redis.call("ZRANGE", QUEUE, 0, 0, "WITHSCORES")
    local partition, tag = first[1], tonumber(first[2])
    if not partition then
      break
    end
    local backlog = BACKLOG .. ":" .. partition
    if uses.c or uses.l then
      item_id, text = take_first(partition)
    else
      item_id = redis.call("LPOP", backlog)
      text = item_id and redis.call("HGET", TASK, item_id)
    end
    if text then
      local weight = string.match(text, "^%d[^ @]*") or "1"
      local policy, charge, charged = nil, tonumber(weight), weight
      if uses.p then
        policy = policy_of(partition)
      end
      if uses.r then
        charge, charged = charge_of(partition, weight, policy.share)
      end
      local is_held = hold_lease(token, item_id, partition, now, charged, expiry, holder, true)
      if not is_held then -- a call with this token was made before: what it got is looked up
        if uses.l then
          push(partition, item_id, text, "front")
        else
          redis.call("LPUSH", backlog, item_id)
        end
        text = nil
        break
      end
      virtual = advance(virtual, tag)
      if not policy then
        tag = tag + charge
      else
        redis.call("HINCRBY", RUNNING, partition, 1)
        tag = tag + charge / policy.share
        local queue = policy_of("")
        spend(partition, policy.interval, policy.tolerance, policy.by, weight, now)
        spend("", queue.total_interval, queue.total_tolerance, queue.total_by, weight, now)
      end
    end
    local stays = redis.call("EXISTS", backlog) == 1
    if uses.c or uses.l then
      stays = waits(partition) > 0
    end
    if uses.p then
      stays = stays and may_serve(partition)
    end
    keep_tag(partition, tag, virtual, stays)
    if text then
      break
    end
  end
  return virtual, text and item_id, text
end
