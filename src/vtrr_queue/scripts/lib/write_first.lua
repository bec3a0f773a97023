--- Let a script go on that keeps or frees what there is, when the server has no memory left.
-- Redis refuses what may take memory until a script has called some other command that writes.
-- @key lease hash token -> lease record
local function write_first()
  redis.call("HDEL", LEASE, "")
end
