"""What the server takes: script costs, memory, optional features, and the producer's rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.fairness import control_costs, life_costs
from benchmarks.producer import producer_rates
from benchmarks.report import Cell, Table
from benchmarks.servercost import memory_per_item, script_costs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.plan import Plan

PARTITIONS = 1_000


def server_costs(plan: Plan) -> Iterator[Table]:
    """Microseconds of the server for each step of a life, and bytes of a waiting item."""
    items = 20_000 if plan.quick else 100_000
    memory = memory_per_item(plan.client, items)
    found = script_costs(plan.client, items, PARTITIONS, plan.rounds)
    floor = found["trivial EVALSHA"]
    rows: list[list[Cell]] = []
    for name, value in found.items():
        peer = found.get(f"eager {name}")
        beside = f"{value / peer:.2f} x" if peer else None
        rows.append([name, value, f"{value / floor:.1f} x", beside])
    yield Table(
        "Server time of a call",
        f"Microseconds of the median call, {items:,} items waiting in {PARTITIONS:,} partitions; "
        f"a waiting item takes {memory:.0f} bytes.",
        ("call", "us", "to a trivial EVALSHA", "to the eager layout"),
        rows,
    )


def optional_features(plan: Plan) -> Iterator[Table]:
    """Microseconds of a life with caps, shares, rates and charge by run time; of policies."""
    lives = life_costs(plan.client, plan.rounds)
    without = lives["nothing optional"]
    yield Table(
        "Server time of a life, by what is in use",
        "Microseconds: the median enqueue, lease and ack of one item, called one at a time; "
        "20,000 wait in 1,000 partitions.",
        ("in use", "us", "to the life without"),
        [[name, value, f"{value / without:.2f} x"] for name, value in lives.items()],
    )
    costs = control_costs(plan.client, plan.rounds)
    yield Table(
        "Server time of controls",
        "One call each.",
        ("call", "us"),
        [list(entry) for entry in costs.items()],
    )


def producers(plan: Plan) -> Iterator[Table]:
    """Items a second of each way to enqueue."""
    rates = producer_rates(plan.url, plan.rounds)
    base = rates["apply_async, one at a time"]
    yield Table(
        "Producer",
        "No worker runs.",
        ("way", "items/s", "to apply_async"),
        [[name, rate, f"{rate / base:.2f} x"] for name, rate in rates.items()],
    )
