"""How the server time of a life grows with the items and partitions that wait, beside eager.

Source:
    The eager layout is in benchmarks/eager.py.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.eager import EagerQueue
from benchmarks.pipelined import BATCH, EagerLives, OurLives, life
from benchmarks.report import Cell, Table
from benchmarks.servercost import LifeSteps, Ours, typical_usec
from vtrr_queue.celery.counting import FEW
from vtrr_queue.stats import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from benchmarks.plan import Plan

LIVES = 500
"""Calls of each step a round."""

BY_ITEMS = ((1_000, 1_000), (10_000, 1_000), (100_000, 1_000), (1_000_000, 1_000))
BY_PARTITIONS = ((100_000, 1), (100_000, 100_000))
QUICK = ((1_000, 1_000), (50_000, 1_000), (50_000, 1))
"""Items, partitions."""


def growth(plan: Plan) -> Iterator[Table]:
    """Server microseconds of a life by what waits; and what statistics add to them."""
    sizes = QUICK if plan.quick else (*BY_ITEMS, *BY_PARTITIONS)
    found = {size: life_times(plan.client, *size, max(plan.rounds, 3)) for size in sizes}
    note = "Microseconds of the server, the median enqueue, lease and ack of one item together; "
    note += "ours and the eager layout take turns on one server; growth is that to the first row."
    head = ("waiting items in partitions", "ours", "growth", "eager", "growth", "ours to eager")
    for at, how in enumerate(("one call at a time", f"{BATCH} calls in a pipeline")):
        rows: list[list[Cell]] = []
        first = found[sizes[0]][at]
        for (items, partitions), figures in found.items():
            ours, eager = figures[at]
            rows.append([
                f"{items:,} in {partitions:,}", ours, f"{ours / first[0]:.2f} x", eager,
                f"{eager / first[1]:.2f} x", f"{ours / eager:.2f} x",
            ])  # fmt: skip
        yield Table(f"Growth of a life's server time, {how}", note, head, rows)
    yield statistics_cost(plan.client, plan.rounds, found[sizes[0]][1][0])


Pair = tuple[float, float]
"""Ours, and the eager layout's."""


def life_times(client: redis.Redis, items: int, partitions: int, rounds: int) -> tuple[Pair, Pair]:
    """Median server microseconds of a life, called one by one and in pipelines.

    Args:
        client: Server to use; its database is emptied.
        items: Items waiting all the while.
        partitions: Partitions they are spread over.
        rounds: Interleaved rounds.
    """
    client.execute_command("FLUSHDB", "SYNC")
    ours, eager = Ours(client, "growth", socket_timeout=60), EagerQueue(client, "growth")
    single = [LifeSteps(ours, items, partitions), LifeSteps(eager, items, partitions)]
    many = [OurLives(ours, partitions), EagerLives(client, eager, partitions)]
    found: list[list[float]] = [[], [], [], []]
    for _ in range(rounds):
        for at in (0, 1):
            found[at].append(_life_one_by_one(client, single[at]))
            found[at + 2].append(life(client, many[at]))
    client.execute_command("FLUSHDB", "SYNC")
    medians = [statistics.median(values) for values in found]
    return (medians[0], medians[1]), (medians[2], medians[3])


def _life_one_by_one(client: redis.Redis, queue: LifeSteps) -> float:
    used = 0.0
    for step in (queue.enqueue, queue.lease, queue.ack):
        client.config_resetstat()
        for _ in range(LIVES):
            step(1)
        used += typical_usec(client, "evalsha")
    return used


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
    for lives, partitions in ((FEW, 10), (100, 100), (1_000, 100), (1_000, 1_000)):
        found = []
        for _ in range(rounds):
            client.config_resetstat()
            for _ in range(20):
                engine.count(seconds_tally(lives, partitions))
            found.append(typical_usec(client, "evalsha"))
        cost = statistics.median(found)
        share = f"{100 * cost / (life * lives):.2f} %" if life else None
        rows.append([f"{lives:,} lives in {partitions:,} partitions", cost, share])
    client.flushdb()
    return Table(
        "Server time of statistics",
        "Microseconds of the one script call that a worker makes for so many lives, once a second "
        f"or, for fewer than {FEW}, in five, and its part of the server time of those lives in a "
        "pipeline.",
        ("what a worker counts", "us", "of the lives"),
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
