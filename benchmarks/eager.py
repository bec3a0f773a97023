"""The textbook layout of a fair queue, to measure ours against: every item has a place of its own.

One sorted set of all item ids, scored at enqueue by start-time fair queueing, and hashes for
payloads, what is known of an item, leases and the partitions' last tags. It does what ours does
with nothing optional in use: an id is stored once, a lease has a fencing token and an expiry that
is looked at before each lease, and an empty queue leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from vtrr_queue.model import NewItem

ENQUEUE = """
local clock = tonumber(redis.call("GET", KEYS[2]) or 0)
local partition, stored = ARGV[1], 0
local last = tonumber(redis.call("HGET", KEYS[3], partition) or 0)
for at = 2, #ARGV, 3 do
  local id, weight = ARGV[at], ARGV[at + 1]
  if redis.call("HSETNX", KEYS[4], id, ARGV[at + 2]) == 1 then
    local start = math.max(clock, last)
    last = start + weight
    redis.call("HSET", KEYS[5], id, weight .. " 0 0 " .. partition)
    redis.call("ZADD", KEYS[1], start, id)
    stored = stored + 1
  end
end
redis.call("HSET", KEYS[3], partition, last)
return stored
"""

LEASE = """
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call("ZRANGEBYSCORE", KEYS[6], "-inf", now, "LIMIT", 0, 8)
for _, id in ipairs(due) do
  redis.call("ZREM", KEYS[6], id)
  redis.call("HDEL", KEYS[7], id)
  redis.call("ZADD", KEYS[1], redis.call("GET", KEYS[2]) or 0, id)
end
local first = redis.call("ZRANGE", KEYS[1], 0, 0, "WITHSCORES")
local id, start = first[1], first[2]
if not id then
  return {}
end
redis.call("ZREM", KEYS[1], id)
if tonumber(start) > tonumber(redis.call("GET", KEYS[2]) or 0) then
  redis.call("SET", KEYS[2], start)
end
redis.call("HSET", KEYS[7], id, ARGV[1] .. " " .. now)
redis.call("ZADD", KEYS[6], now + ARGV[2], id)
return { id, redis.call("HGET", KEYS[4], id), redis.call("HGET", KEYS[5], id) }
"""

ACK = """
local held = redis.call("HGET", KEYS[7], ARGV[1])
if not held or string.match(held, "^%S+") ~= ARGV[2] then
  return 0
end
redis.call("HDEL", KEYS[7], ARGV[1])
redis.call("ZREM", KEYS[6], ARGV[1])
redis.call("HDEL", KEYS[4], ARGV[1])
redis.call("HDEL", KEYS[5], ARGV[1])
if redis.call("EXISTS", KEYS[4]) == 0 then
  redis.call("DEL", KEYS[2], KEYS[3])
end
return 1
"""

KEYS = ("queue", "clock", "last", "payload", "about", "inflight", "lease")


class EagerQueue:
    """The queue of that layout.

    Args:
        client: Server to use.
        name: Prefix of its keys.
    """

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._client = client
        self._keys = [f"eager:{name}:{key}" for key in KEYS]
        self._sha = {}
        for script in (ENQUEUE, LEASE, ACK):
            client.script_load(script)
            self._sha[script] = hashlib.sha1(script.encode()).hexdigest()  # noqa: S324

    def enqueue(self, partition: str, items: Sequence[NewItem]) -> int:
        """Store items of weight 1; how many are new."""
        words = [word for item in items for word in (item.item_id, 1, item.body)]
        return int(self._run(ENQUEUE, partition, *words))

    def take(self) -> tuple[str, str]:
        """Lease the next item: its id, the token."""
        token = secrets.token_hex(16)
        item_id, _, _ = self._run(LEASE, token, 3_900_000)
        return item_id, token

    def ack(self, item_id: str, token: str) -> None:
        """Finish an item."""
        if self._run(ACK, item_id, token) != 1:
            message = f"{item_id!r} was not held"
            raise RuntimeError(message)

    def command(self, script: str) -> tuple[object, ...]:
        """Arguments of EVALSHA up to those of the script itself."""
        return (self._sha[script], len(self._keys), *self._keys)

    def _run(self, script: str, *arguments: object) -> object:
        return self._client.evalsha(*self.command(script), *arguments)
