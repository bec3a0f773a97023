--- Build a task record: "weight timeouts retries partition-length partition body".
local function record(weight, timeouts, retries, partition, body)
  return table.concat({ weight, timeouts, retries, #partition, partition .. body }, " ")
end
