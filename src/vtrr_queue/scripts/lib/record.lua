--- Build a task record. `since` is when it became servable, ms; nil when that is not known.
-- Most items have no weight of their own and nothing counted, and a few bytes decide which size of
-- memory block a record takes. Theirs is: a byte, SHORT_RECORD + partition length; five bytes, high
-- ones first, the milliseconds after SHORT_EPOCH; partition; body. That of any other is text:
-- "weight timeouts retries since partition-length partition body", a weight that was not given and a
-- count of 0 left empty, since in hexadecimal.
local function record(weight, timeouts, retries, since, partition, body)
  timeouts, retries = tonumber(timeouts) > 0 and timeouts or "", tonumber(retries) > 0 and retries or ""
  local past, is_plain = (since or 0) - SHORT_EPOCH, weight == "1" and timeouts == "" and retries == ""
  if is_plain and #partition <= SHORT_NAME and past >= 0 and past < SHORT_SPAN then
    local high, low = math.floor(past / 65536), past % 65536
    return string.char(
      SHORT_RECORD + #partition, high / 65536, high / 256 % 256, high % 256, low / 256, low % 256
    ) .. partition .. body
  end
  return (weight ~= "1" and weight or "") .. " " .. timeouts .. " " .. retries .. " "
    .. (since and string.format("%x", since) or "") .. " " .. #partition .. " " .. partition .. body
end
