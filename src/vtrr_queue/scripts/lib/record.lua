--- Build a task record: "weight timeouts retries since partition-length partition body".
-- `since` is when it became servable, as `format_since` writes it.
-- A weight of 1 that was not given and a count of 0 are left empty: most records have none, and a
-- few bytes decide which size of memory block a record takes.
local function record(weight, timeouts, retries, since, partition, body)
  return (weight ~= "1" and weight or "") .. " " .. (tonumber(timeouts) > 0 and timeouts or "") .. " "
    .. (tonumber(retries) > 0 and retries or "") .. " " .. since .. " " .. #partition .. " " .. partition .. body
end
