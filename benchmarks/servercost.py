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


def script_costs(client: redis.Redis, items: int, partitions: int, rounds: int) -> dict[str, float]:
    """Median server microseconds a call of each step of an item's life, and of the floor.

    Args:
        client: Server to use; its database is emptied.
        items: Items waiting all the while.
        partitions: Partitions they are spread over.
        rounds: Rounds; each measures every step on 500 calls, interleaved.
    """
    client.flushdb()
    engine = Engine(client, "bench")
    size = items // partitions
    for p in range(partitions):
        engine.enqueue(f"p{p}", [NewItem(ID.format(p * size + n), BODY) for n in range(size)])
    trivial = client.script_load("return 1")
    found: dict[str, list[float]] = {}
    serial = items
    for _ in range(rounds):
        ids = range(serial, serial + 500)
        serial += 2000
        leases: list[tuple[str, str]] = []

        def enqueue_one(n: int) -> None:
            engine.enqueue(f"p{n % partitions}", [NewItem(ID.format(n), BODY)])

        def lease_one(_: int, leases: list[tuple[str, str]] = leases) -> None:
            lease = engine.lease().items[0]
            leases.append((lease.item_id, lease.token))

        def ack_one(_: int, leases: list[tuple[str, str]] = leases) -> None:
            engine.ack(*leases.pop())

        def bulk(n: int, base: int = serial) -> None:
            many = [NewItem(ID.format(base * 1000 + n * 500 + k), BODY) for k in range(500)]
            engine.enqueue(f"p{n % partitions}", many)

        steps = (
            ("LPUSH", "lpush", 500, lambda n: client.lpush("floor", ID.format(n))),
            ("RPOP", "rpop", 500, lambda _: client.rpop("floor")),
            ("trivial EVALSHA", "evalsha", 500, lambda _: client.evalsha(trivial, 0)),
            ("enqueue 1", "evalsha", 500, enqueue_one),
            ("lease", "evalsha", 500, lease_one),
            ("ack", "evalsha", 500, ack_one),
            ("enqueue 500, an item", "evalsha", 4, bulk),
        )
        for name, command, calls, step in steps:
            client.config_resetstat()
            for n in ids[:calls]:
                step(n)
            stats = client.info("commandstats")[f"cmdstat_{command}"]
            divisor = 500 * calls if name.endswith("an item") else calls
            found.setdefault(name, []).append(float(stats["usec"]) / divisor)
    client.flushdb()
    costs = {name: statistics.median(values) for name, values in found.items()}
    costs["item life"] = costs["enqueue 1"] + costs["lease"] + costs["ack"]
    return costs
