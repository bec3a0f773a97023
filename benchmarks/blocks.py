"""The longest time for which one script call keeps everybody else waiting."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks.growth import seconds_tally
from benchmarks.report import Cell, Table
from benchmarks.servercost import BODY, ID
from vtrr_queue import Engine
from vtrr_queue.model import NewItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from benchmarks.plan import Plan

LEASED = 1_000
"""Leases that expire, are renewed or are asked for at once."""


def longest_blocks(plan: Plan) -> Iterator[Table]:
    """The slowest script call of each large operation, from the server's slow log."""
    rows: dict[str, list[float]] = {}
    for _ in range(plan.rounds):
        for name, longest in _round(plan.client, 10_000 if plan.quick else 100_000):
            rows.setdefault(name, []).append(longest)
    plan.client.flushdb()
    shown: list[list[Cell]] = [[name, min(times), max(times)] for name, times in rows.items()]
    note = "Milliseconds of the slowest call of each operation: the least and the most of the "
    note += "rounds. The most has the machine's interruptions in it."
    yield Table("Longest block of the server", note, ("operation", "least", "most"), shown)


def _round(client: redis.Redis, backlog: int) -> Iterator[tuple[str, float]]:
    client.flushdb()
    engine = Engine(client, "blocks", lease_seconds=1, socket_timeout=60)
    with _slowest(client) as slowest:
        engine.enqueue("big", _items(0, 10_000))
        yield "enqueue of 10,000 items", slowest()
        engine.lease(count=LEASED)
        yield f"lease of {LEASED:,} items", slowest()
        time.sleep(1.1)  # until those leases have ended
        engine.reclaim()
        yield f"reclaim of {LEASED:,} expired leases", slowest()
        held = engine.lease(count=500).items
        slowest()
        engine.renew_many([(lease.item_id, lease.token) for lease in held])
        yield "renewal of 500 leases", slowest()
        engine.count(seconds_tally(5_000, 1_000))
        yield "statistics of 5,000 lives in 1,000 partitions", slowest()
        engine.enqueue("huge", _items(10_000, backlog))
        slowest()
        engine.purge("huge")
        yield f"purge of {backlog:,} items", slowest()
        engine.set_policy("", cap=1)
        yield "the first policy, 500 items running", slowest()


def _items(first: int, count: int) -> list[NewItem]:
    return [NewItem(ID.format(first + number), BODY) for number in range(count)]


@contextmanager
def _slowest(client: redis.Redis) -> Iterator[Callable[[], float]]:
    """Gives a function: milliseconds of the slowest script call since it was last called."""
    before = client.config_get("slowlog-*")
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("slowlog-max-len", 10_000)
    client.slowlog_reset()

    def slowest() -> float:
        found = [
            float(entry["duration"]) / 1000
            for entry in client.slowlog_get(10_000)
            if entry["command"].upper().startswith((b"EVAL", b"FCALL"))
        ]
        client.slowlog_reset()
        return max(found)

    try:
        yield slowest
    finally:
        for name, value in before.items():
            client.config_set(name, value)
