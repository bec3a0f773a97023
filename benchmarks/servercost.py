"""Server microseconds a call and bytes an item, read from the server itself."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from vtrr_queue import Engine
from vtrr_queue.model import NewItem

if TYPE_CHECKING:
    import redis

BODY = b"x" * 114
ID = "item-{:031d}"
"""36 bytes, as a UUID in text."""


def memory_per_item(client: redis.Redis, items: int) -> float:
    """Bytes of server memory a waiting item takes: 36 byte id, 114 byte body.

    Args:
        client: Server to fill; its database is emptied.
        items: How many, spread over 1,000 partitions at most.
    """
    client.flushdb()
    engine = Engine(client, "bench")
    before = int(client.info("memory")["used_memory"])
    partitions = min(1000, items // 100)
    size = items // partitions
    for p in range(partitions):
        engine.enqueue(f"p{p}", [NewItem(ID.format(p * size + n), BODY) for n in range(size)])
    after = int(client.info("memory")["used_memory"])
    client.flushdb()
    return (after - before) / (size * partitions)


class LifeSteps:
    """The steps of an item's life, one call at a time, on a queue that stays filled.

    Args:
        client: Server to use; its database is emptied.
        items: Items waiting all the while.
        partitions: Partitions they are spread over.
    """

    def __init__(self, client: redis.Redis, items: int, partitions: int) -> None:
        self._client, self._partitions = client, partitions
        self._engine = Engine(client, "bench")
        self._trivial = client.script_load("return 1")
        self._leases: list[tuple[str, str]] = []
        self._serial = 0
        for _ in range(items // 500):
            self.enqueue_500()

    def _fresh(self, count: int) -> list[NewItem]:
        self._serial += count
        return [NewItem(ID.format(self._serial - n), BODY) for n in range(count)]

    def lpush(self) -> None:
        """Floor: push one element."""
        self._client.lpush("floor", ID)

    def rpop(self) -> None:
        """Floor: pop one element."""
        self._client.rpop("floor")

    def trivial(self) -> None:
        """Floor: a script that does nothing."""
        self._client.evalsha(self._trivial, 0)

    def enqueue_1(self) -> None:
        """Enqueue one item."""
        self._engine.enqueue(f"p{self._serial % self._partitions}", self._fresh(1))

    def enqueue_500(self) -> None:
        """Enqueue 500 items in one call."""
        self._engine.enqueue(f"p{self._serial // 500 % self._partitions}", self._fresh(500))

    def lease(self) -> None:
        """Lease one item."""
        lease = self._engine.lease().items[0]
        self._leases.append((lease.item_id, lease.token))

    def ack(self) -> None:
        """Finish one item."""
        self._engine.ack(*self._leases.pop())


STEPS = (
    ("LPUSH", "lpush", 500, LifeSteps.lpush),
    ("RPOP", "rpop", 500, LifeSteps.rpop),
    ("trivial EVALSHA", "evalsha", 500, LifeSteps.trivial),
    ("enqueue 1", "evalsha", 500, LifeSteps.enqueue_1),
    ("lease", "evalsha", 500, LifeSteps.lease),
    ("ack", "evalsha", 500, LifeSteps.ack),
    ("enqueue 500, an item", "evalsha", 4, LifeSteps.enqueue_500),
)
"""Name, command in INFO commandstats, calls a round, step."""


def script_costs(client: redis.Redis, items: int, partitions: int, rounds: int) -> dict[str, float]:
    """Median server microseconds a call of each step of an item's life, and of the floor.

    Args:
        client: Server to use; its database is emptied.
        items: Items waiting all the while.
        partitions: Partitions they are spread over, at most one for 500 items.
        rounds: Interleaved rounds.
    """
    client.flushdb()
    steps = LifeSteps(client, items, partitions)
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, command, calls, step in STEPS:
            client.config_resetstat()
            for _ in range(calls):
                step(steps)
            used = float(client.info("commandstats")[f"cmdstat_{command}"]["usec"])
            pieces = 500 * calls if name.endswith("an item") else calls
            found.setdefault(name, []).append(used / pieces)
    client.flushdb()
    costs = {name: statistics.median(values) for name, values in found.items()}
    costs["item life"] = costs["enqueue 1"] + costs["lease"] + costs["ack"]
    return costs
