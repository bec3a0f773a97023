--- Take triggers that could not be published out of the ledger.
-- @key schema string layout number and letters
-- @key triggers zset trigger id -> time sent (ms)
-- @arg echo str
-- @rest trigger_ids
-- @include check_schema
-- @return {"forgotten", echo, 0, 0, 0, ""} | {"schema", echo, found}
-- @cost O(ids * log triggers)
local found = check_schema(redis.call("GET", SCHEMA))
if found then
  return { "schema", echo, found }
end
for at = trigger_ids, #ARGV do
  redis.call("ZREM", TRIGGERS, ARGV[at])
end
return { "forgotten", echo, 0, 0, 0, "" }
