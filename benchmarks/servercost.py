"""Server microseconds a call and bytes an item, read from the server itself."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Protocol

from benchmarks.eager import EagerQueue
from vtrr_queue import Engine
from vtrr_queue.model import NewItem

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

BODY = b"x" * 114
CALLS = 500
"""Calls of each step a round."""

ID = "item-{:031d}"
"""36 bytes, as a UUID in text."""


def memory_per_item(client: redis.Redis, items: int) -> float:
    """Bytes of server memory a waiting item takes: 36 byte id, 114 byte body.

    Args:
        client: Server to fill; its database is emptied.
        items: How many, spread over 1,000 partitions at most.
    """
    client.execute_command("FLUSHDB", "SYNC")  # else it is still giving memory back
    engine = Engine(client, "bench")
    before = int(client.info("memory")["used_memory"])
    partitions = min(1000, items // 100)
    size = items // partitions
    for p in range(partitions):
        engine.enqueue(f"p{p}", [NewItem(ID.format(p * size + n), BODY) for n in range(size)])
    after = int(client.info("memory")["used_memory"])
    client.flushdb()
    return (after - before) / (size * partitions)


def typical_usec(client: redis.Redis, command: str) -> float:
    """Server microseconds of the median call of a command since its counts were reset.

    The mean would have in it whatever else the machine did meanwhile. Servers before Redis 7 know
    no median: there it is the mean.
    """
    medians = client.info("latencystats").get(f"latency_percentiles_usec_{command}")
    if medians:
        return float(medians["p50"])
    return float(client.info("commandstats")[f"cmdstat_{command}"]["usec_per_call"])


class Peer(Protocol):
    """A queue whose items live: ours, or the eager one."""

    def enqueue(self, partition: str, items: list[NewItem]) -> object:
        """Store items."""

    def take(self) -> tuple[str, str]:
        """Lease an item: its id, the token."""

    def ack(self, item_id: str, token: str) -> object:
        """Finish it."""


class Ours(Engine):
    """Our queue as a peer."""

    def take(self) -> tuple[str, str]:
        """Lease an item: its id, the token."""
        lease = self.lease().items[0]
        return lease.item_id, lease.token


class LifeSteps:
    """The steps of an item's life, one call at a time, on a queue that stays filled.

    Args:
        peer: The queue.
        items: Items waiting all the while.
        partitions: Partitions they are spread over.
    """

    def __init__(self, peer: Peer, items: int, partitions: int) -> None:
        self._peer, self._partitions = peer, partitions
        self._leases: list[tuple[str, str]] = []
        self._serial = 0
        size = max(1, min(500, items // partitions))
        for _ in range(items // size):
            self.enqueue(size)

    def enqueue(self, count: int) -> None:
        """Enqueue so many items in one call."""
        self._serial += count
        fresh = [NewItem(ID.format(self._serial - n), BODY) for n in range(count)]
        self._peer.enqueue(f"p{self._serial // count % self._partitions}", fresh)

    def lease(self, _count: int) -> None:
        """Lease one item."""
        self._leases.append(self._peer.take())

    def ack(self, _count: int) -> None:
        """Finish one item."""
        self._peer.ack(*self._leases.pop())


class Floor:
    """What the server takes for nothing.

    Args:
        client: Server to use.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._trivial = client.script_load("return 1")

    def push(self, _count: int) -> None:
        """Push one element."""
        self._client.lpush("floor", ID)

    def pop(self, _count: int) -> None:
        """Pop one element."""
        self._client.rpop("floor")

    def trivial(self, _count: int) -> None:
        """A script that does nothing."""
        self._client.evalsha(self._trivial, 0)


LIFE = (("enqueue 1", "enqueue", 1), ("lease", "lease", 1), ("ack", "ack", 1))
"""Name, method, items a call."""


def script_costs(client: redis.Redis, items: int, partitions: int, rounds: int) -> dict[str, float]:
    """Median server microseconds of each step of an item's life, of the eager layout and the floor.

    Args:
        client: Server to use; its database is emptied.
        items: Items waiting all the while.
        partitions: Partitions they are spread over.
        rounds: Interleaved rounds.
    """
    client.flushdb()
    floor = Floor(client)
    steps: dict[str, LifeSteps] = {
        "": LifeSteps(Ours(client, "bench"), items, partitions),
        "eager ": LifeSteps(EagerQueue(client, "bench"), items, partitions),
    }
    plan: list[tuple[str, str, int, int, Callable[[int], None]]] = [
        ("LPUSH", "lpush", 500, 1, floor.push),
        ("RPOP", "rpop", 500, 1, floor.pop),
        ("trivial EVALSHA", "evalsha", 500, 1, floor.trivial),
    ]
    for who, life in steps.items():
        plan += [(f"{who}{name}", "evalsha", CALLS, count, getattr(life, method))
                 for name, method, count in LIFE]  # fmt: skip
        plan.append((f"{who}enqueue 1,000, an item", "evalsha", 4, 1000, life.enqueue))
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, command, calls, count, step in plan:
            client.config_resetstat()
            for _ in range(calls):
                step(count)
            found.setdefault(name, []).append(typical_usec(client, command) / count)
        for life in steps.values():
            _shrink(life, 4000)
    client.flushdb()
    for who in steps:
        lives = zip(*(found[f"{who}{name}"] for name, _, _ in LIFE), strict=True)
        found[f"{who}item life"] = [sum(life) for life in lives]
    return {name: statistics.median(values) for name, values in found.items()}


def _shrink(life: LifeSteps, count: int) -> None:
    """Take out what the bulk calls put in, so that all rounds are alike."""
    for _ in range(count):
        life.lease(1)
        life.ack(1)
