"""What shares, caps, rates and charge by run time cost the server, beside a queue without."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from benchmarks.servercost import BODY, ID, typical_usec
from vtrr_queue import Engine, Rate
from vtrr_queue.model import NewItem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import redis

    from vtrr_queue.model import Lease

PARTITIONS = 1000
LIVES = 300
"""Item lives a round."""


class Queue:
    """A queue that stays filled.

    Args:
        client: Its server.
        name: Name of the queue.
        items: Items that wait, over 1,000 partitions.
    """

    def __init__(self, client: redis.Redis, name: str, items: int = 20_000) -> None:
        self._client, self.engine = client, Engine(client, name, socket_timeout=60)
        self._serial = 0
        for number in range(PARTITIONS):
            self.fill(f"p{number}", items // PARTITIONS)

    def fill(self, partition: str, count: int) -> None:
        """Enqueue so many items."""
        self._serial += count
        items = [NewItem(ID.format(self._serial - n), BODY) for n in range(count)]
        self.engine.enqueue(partition, items)

    def rule(self, settings: Mapping[str, Any]) -> None:
        """Give each partition the same policy."""
        for number in range(PARTITIONS):
            self.engine.set_policy(f"p{number}", **settings)

    def lives(self) -> float:
        """Let items come, be leased and finished; server microseconds a life."""
        held: list[Lease] = []

        def ack(number: int) -> None:
            self.engine.ack(held[number].item_id, held[number].token)

        steps: tuple[Callable[[int], object], ...] = (
            lambda number: self.fill(f"p{number * 7 % PARTITIONS}", 1),
            lambda _: held.extend(self.engine.lease().items),
            ack,
        )
        used = 0.0
        for step in steps:
            self._client.config_resetstat()
            for number in range(LIVES):
                step(number)
            used += typical_usec(self._client, "evalsha")
        return used


def life_costs(client: redis.Redis, rounds: int) -> dict[str, float]:
    """Server microseconds an item life, by what the queue uses; rounds are interleaved.

    Args:
        client: Server to use; its database is emptied.
        rounds: How many.
    """
    client.flushdb()
    queues = {
        "nothing optional": Queue(client, "plain"),
        "a default cap": Queue(client, "cap"),
        "the same beside 100,000 blocked items": Queue(client, "blocked"),
        "share and cap on every partition": Queue(client, "shares"),
        "share, cap and rate on every partition": Queue(client, "rates"),
        "charge by run time": Queue(client, "runtime"),
        "all of these": Queue(client, "all"),
    }
    queues["a default cap"].engine.set_policy("", cap=50)
    blocked = queues["the same beside 100,000 blocked items"]
    blocked.engine.set_policy("", cap=50)
    for number in range(PARTITIONS):
        blocked.engine.set_policy(f"b{number}", **({"paused": True} if number % 2 else {"cap": 1}))
        blocked.fill(f"b{number}", 101 - number % 2)
    while blocked.engine.lease(count=500).items:  # the capped ones run one item each for ever
        pass
    for number in range(PARTITIONS):
        blocked.fill(f"p{number}", 20)
    queues["share and cap on every partition"].rule({"share": 2, "cap": 50})
    limits = {"share": 2, "cap": 50, "rate": Rate(1000, 100)}
    queues["share, cap and rate on every partition"].rule(limits)
    queues["charge by run time"].engine.set_policy("", charge="runtime")
    queues["all of these"].engine.set_policy("", charge="runtime")
    queues["all of these"].rule(limits)
    found: dict[str, list[float]] = {name: [] for name in queues}
    for _ in range(rounds):
        for name, queue in queues.items():
            found[name].append(queue.lives())
    client.flushdb()
    return {name: statistics.median(values) for name, values in found.items()}


def control_costs(client: redis.Redis, rounds: int) -> dict[str, float]:
    """Server microseconds of a policy set while 1,000 and 100,000 items wait, and of a purge.

    Args:
        client: Server to use; its database is emptied.
        rounds: Policies set, by hundreds.
    """
    found: dict[str, float] = {}
    for items in (1_000, 100_000):
        client.flushdb()
        queue = Queue(client, "q", items)
        client.config_resetstat()
        for number in range(100 * rounds):
            queue.engine.set_policy(f"p{number % 10}", share=1 + number % 3)
        stats = client.info("commandstats")["cmdstat_evalsha"]
        found[f"a share set, {items:,} items waiting"] = float(stats["usec_per_call"])
    queue.fill("big", 100_000)
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("slowlog-max-len", 10_000)
    client.slowlog_reset()
    queue.engine.purge("big")
    slow = [float(entry["duration"]) for entry in client.slowlog_get(10_000)
            if "EVAL" in str(entry["command"])[:9]]  # fmt: skip
    client.config_set("slowlog-log-slower-than", 10_000)
    found["a purge of 100,000 items, one call of it"] = statistics.median(slow)
    found["a purge of 100,000 items, its longest call"] = max(slow)
    client.flushdb()
    return found
