"""How long a small tenant's items wait while another tenant floods the queue.

The flood waits before the worker starts; the small tenant then enqueues an item every tenth of a
second. A wait is the time from the small tenant's call to the first line of its function.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders import Contender
from benchmarks.contenders.group import DrainFailed, Group, Setting
from benchmarks.report import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.plan import Plan

SLOTS = 4
POOL = f"prefork {SLOTS}"
SECONDS = 0.005
FLOOD, QUICK_FLOOD = 10_000, 3_000
SMALL, QUICK_SMALL = 50, 20
WARM = 50
"""Items of the flood that have run before the small tenant comes."""

_WORKER = f"celery -A tenants worker -l WARNING -n bench@%h -P prefork -c {SLOTS}"
_WORKER += " --without-gossip --without-mingle --without-heartbeat"

PLAIN = "plain Celery, flood"
RESERVED = f" {SLOTS - 1}"
LANES = {
    PLAIN: ("plain", True),
    "plain Celery, empty queue": ("plain", False),
    "direct, flood": ("direct", True),
    "direct, flood, a slot reserved": ("direct" + RESERVED, True),
    "direct, empty queue": ("direct", False),
    "trigger, flood": ("trigger", True),
    "trigger, flood, a slot reserved": ("trigger" + RESERVED, True),
    "trigger, empty queue": ("trigger", False),
}
"""Name -> what the app is to do, whether there is a flood."""

QUICK_LANES = (PLAIN, *(name for name in LANES if name.startswith("direct")))


def latencies(plan: Plan) -> Iterator[Table]:
    """Measure all lanes in interleaved rounds; percentiles of all rounds together."""
    flood = QUICK_FLOOD if plan.quick else FLOOD
    waits: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    lanes = QUICK_LANES if plan.quick else LANES
    for _ in range(min(plan.rounds, 2)):
        for name in lanes:
            try:
                waits.setdefault(name, []).extend(_lane(plan, name, flood))
            except DrainFailed as exc:
                failed[name] = str(exc).splitlines()[0]
    yield _table(waits, failed, flood)


def _lane(plan: Plan, name: str, flood: int) -> list[float]:
    variant, flooded = LANES[name]
    contender = Contender(name, "tenants", {POOL: _WORKER}, variant=variant)
    small = QUICK_SMALL if plan.quick else SMALL
    plan.client.flushall()
    with tempfile.TemporaryDirectory(dir=plan.folder) as folder:
        setting = Setting(f"{plan.url}/0", Path(folder), POOL, SECONDS, flood)
        with Group(contender, setting) as group:
            return small_waits(group, small, flood if flooded else 0)


def small_waits(group: Group, small: int, flood: int) -> list[float]:
    """Waits of the small tenant's items, s."""
    if flood:
        group.call("flood", flood)
    group.start()
    warm = 0
    if flood:
        group.until(group.done, WARM)
    else:
        warm = 1
        group.call("trickle", warm)
        group.until(lambda: len(group.waits()), warm)
    group.call("trickle", small)
    if flood and group.done() >= flood:
        raise DrainFailed("the flood was over before the small tenant's last item came")
    group.until(lambda: len(group.waits()), warm + small)
    return group.waits()[warm:]


def percentiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The 50th, 95th and 99th percentile, of two values or more."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[94], cuts[98]


def _table(waits: dict[str, list[float]], failed: dict[str, str], flood: int) -> Table:
    found = {name: percentiles(values) for name, values in waits.items() if values}
    rows: list[list[Cell]] = []
    for name, values in found.items():
        empty = found.get(f"{name.partition(',')[0]}, empty queue")
        rows.append([
            name,
            *(value * 1000 for value in values),
            f"{found[PLAIN][1] / values[1]:.1f} x" if PLAIN in found else None,
            f"{values[1] / empty[1]:.2f} x" if empty else None,
        ])  # fmt: skip
    note = f"Milliseconds from the call to the function, one item every 100 ms beside {flood:,} "
    note += f"items of another tenant, {SECONDS * 1000:g} ms each, {POOL}; all rounds together. A "
    note += f"reserved slot is a cap of {SLOTS - 1} on the flood's partition."
    for name, why in failed.items():
        note += f" {name}: {why}."
    head = ("", "p50", "p95", "p99", "p95 better than plain's", "p95 to an empty queue's")
    return Table("Waits of a small tenant", note, head, rows)
