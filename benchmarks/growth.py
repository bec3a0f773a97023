"""How the server time of a life grows with the items and partitions that wait, beside eager.

Source:
    The eager layout is in benchmarks/eager.py.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.eager import EagerQueue
from benchmarks.report import Cell, Table
from benchmarks.servercost import LifeSteps, Ours
from vtrr_queue.stats import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from benchmarks.plan import Plan

LIVES = 500
"""Lives a round."""

BY_ITEMS = ((1_000, 1_000), (10_000, 1_000), (100_000, 1_000), (1_000_000, 1_000))
BY_PARTITIONS = ((100_000, 1), (100_000, 100_000))
QUICK = ((1_000, 1_000), (50_000, 1_000), (50_000, 1))
"""Items, partitions."""


def growth(plan: Plan) -> Iterator[Table]:
    """Server microseconds of a life by what waits; and what statistics add to them."""
    sizes = QUICK if plan.quick else (*BY_ITEMS, *BY_PARTITIONS)
    rows: list[list[Cell]] = []
    first: tuple[float, float] | None = None
    for items, partitions in sizes:
        ours, eager = life_times(plan.client, items, partitions, max(plan.rounds, 3))
        first = first or (ours, eager)
        rows.append([
            f"{items:,} in {partitions:,}", ours, f"{ours / first[0]:.2f} x", eager,
            f"{eager / first[1]:.2f} x", f"{ours / eager:.2f} x",
        ])  # fmt: skip
    note = "Microseconds of the server for enqueue, lease and ack of one item; ours and the eager "
    note += "layout take turns on one server; growth is that to the first row."
    head = ("waiting items in partitions", "ours", "growth", "eager", "growth", "ours to eager")
    yield Table("Growth of a life's server time", note, head, rows)
    yield statistics_cost(plan.client, plan.rounds, first[0] if first else 0.0)


def life_times(
    client: redis.Redis, items: int, partitions: int, rounds: int
) -> tuple[float, float]:
    """Median server microseconds of a life, ours and the eager layout's.

    Args:
        client: Server to use; its database is emptied.
        items: Items waiting all the while.
        partitions: Partitions they are spread over.
        rounds: Interleaved rounds.
    """
    client.flushdb()
    queues = [
        LifeSteps(Ours(client, "growth", socket_timeout=60), items, partitions),
        LifeSteps(EagerQueue(client, "growth"), items, partitions),
    ]
    found: list[list[float]] = [[], []]
    for _ in range(rounds):
        for queue, values in zip(queues, found, strict=True):
            client.config_resetstat()
            for _ in range(LIVES):
                queue.enqueue(1)
                queue.lease(1)
                queue.ack(1)
            values.append(script_usec(client) / LIVES)
    client.flushdb()
    return statistics.median(found[0]), statistics.median(found[1])


def script_usec(client: redis.Redis) -> float:
    """Microseconds the server spent in scripts since its counts were reset."""
    stats = client.info("commandstats")
    return sum(float(stats[name]["usec"]) for name in stats if name.startswith("cmdstat_eval"))


def statistics_cost(client: redis.Redis, rounds: int, life: float) -> Table:
    """What one second's batch of a worker costs, beside the lives that it counts.

    Args:
        client: Server to use; its database is emptied.
        rounds: Rounds, of twenty batches each.
        life: Server microseconds of a life.
    """
    client.flushdb()
    engine = Ours(client, "counting")
    engine.count(seconds_tally(1, 1))  # the first call brings the script
    rows: list[list[Cell]] = []
    for lives, partitions in ((10, 10), (100, 100), (1_000, 100), (1_000, 1_000)):
        found = []
        for _ in range(rounds):
            client.config_resetstat()
            for _ in range(20):
                engine.count(seconds_tally(lives, partitions))
            found.append(script_usec(client) / 20)
        cost = statistics.median(found)
        share = f"{100 * cost / (life * lives):.2f} %" if life else None
        rows.append([f"{lives:,} lives in {partitions:,} partitions", cost, share])
    client.flushdb()
    return Table(
        "Server time of statistics",
        "Microseconds of the one script call that a worker makes in a second, and its part of the "
        "server time of the lives that it counts.",
        ("a worker's second", "us", "of the lives"),
        rows,
    )


def seconds_tally(lives: int, partitions: int) -> Tally:
    """What a worker counts of so many lives."""
    tally = Tally()
    for number in range(lives):
        tally.served(0.001 * (number % 50))
        tally.charged(f"p{number % partitions}", 1.0)
        tally.ended("acked", 0.001 * (number % 70), failed=False)
    return tally
