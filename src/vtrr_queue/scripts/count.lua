--- Add what a worker has counted since it last did: totals, and what partitions were charged.
-- Workers count and tell this once a second, so that statistics cost nothing at an item's life.
-- @key schema string layout number and letters
-- @key stats hash name -> total, or "wait|run:<bucket>" -> how many
-- @key service hash partition -> charge in that minute, "" for those beyond the first thousand
-- @key recent string number of the producer's last call and its duplicates, short-lived
-- @arg echo str names this batch, so that it is added once
-- @arg remember_ms int how long that name is kept, ms
-- @arg keep_ms int how long totals are kept after the last batch, ms
-- @arg totals int how many of the entries are totals; the others are partitions
-- @rest entries name, amount
-- @include now_ms
-- @include check_schema
-- @include write_first
-- @return {"counted", echo, now} | {"schema", echo, found}
-- @cost O(entries)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
write_first()
local now = now_ms()
if not redis.call("SET", RECENT .. ":" .. echo, 0, "NX", "PX", remember_ms) then
  return { "counted", echo, now }
end
local first_partition = entries + 2 * totals
for at = entries, first_partition - 2, 2 do
  redis.call("HINCRBY", STATS, ARGV[at], ARGV[at + 1])
end
redis.call("HSETNX", STATS, "since", string.format("%.0f", now))
redis.call("PEXPIRE", STATS, keep_ms)
local slot = SERVICE .. ":" .. math.floor(now / SLOT_MS)
local fits = redis.call("HLEN", slot) + (#ARGV - first_partition + 1) / 2 <= MOST_SERVED
for at = first_partition, #ARGV, 2 do
  local partition = ARGV[at]
  if not fits and redis.call("HLEN", slot) >= MOST_SERVED and redis.call("HEXISTS", slot, partition) == 0 then
    partition = ""
  end
  redis.call("HINCRBYFLOAT", slot, partition, ARGV[at + 1])
end
redis.call("PEXPIRE", slot, SLOT_MS * (SLOTS + 1))
return { "counted", echo, now }
