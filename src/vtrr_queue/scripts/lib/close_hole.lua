--- Take an id out of the backlogs that was cancelled there, because it comes again.
-- @key cancelled hash item_id -> partition of a waiting one, "" for a running one
-- @key backlog list waiting item ids
-- @key level list waiting item ids of one priority
-- @key levels hash partition -> priorities in use, other than the default
-- @include set_level
-- @include fill_holes
-- @optional c
local function close_hole(item_id)
  local partition = redis.call("HGET", CANCELLED, item_id)
  if not partition or partition == "" then
    return
  end
  redis.call("LREM", BACKLOG .. ":" .. partition, 1, item_id)
  if uses.l then
    for level in string.gmatch(redis.call("HGET", LEVELS, partition) or "", ".") do
      local list = LEVEL .. ":" .. level .. ":" .. partition
      redis.call("LREM", list, 1, item_id)
      set_level(partition, level, redis.call("EXISTS", list) == 1)
    end
  end
  fill_holes(partition, { item_id })
end
