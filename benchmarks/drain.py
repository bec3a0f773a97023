"""End to end: how fast one worker drains a full queue, ours beside plain Celery and the peers.

All items wait before the worker starts. Each appends a byte to a file when it has run; the rate is
that from a tenth of the items to the last, so the start of the worker does not count.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders import CONCURRENCY, OURS, PEERS, PLAIN, POOLS, PREFORK, THREADS
from benchmarks.contenders.environment import NotInstalled, programs
from benchmarks.contenders.group import DrainFailed, Setting, drain
from benchmarks.report import Table, compared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.contenders import Contender
    from benchmarks.plan import Plan

DRAIN = "Drain, "
"""How the titles of the tables begin."""

NO_OP, SHORT = "no-op", "5 ms"
SECONDS = {NO_OP: 0.0, SHORT: 0.005}

ITEMS = {NO_OP: 3000, SHORT: 250}
"""Items of a drain; those of 5 ms for each that can run at once."""

QUICK_ITEMS = {NO_OP: 1000, SHORT: 150}

FEWEST_ITEMS = 60


def drains(plan: Plan) -> Iterator[Table]:
    """Measure all contenders in interleaved rounds; a table for each pool."""
    contenders, missing = _contenders(plan)
    kinds = plan.works or ((NO_OP,) if plan.quick else (NO_OP, SHORT))
    for pool in plan.pools or ((PREFORK, THREADS) if plan.quick else POOLS):
        racing = [contender for contender in contenders if pool in contender.commands]
        rates: dict[tuple[str, str], list[float]] = {}
        failed: dict[str, str] = dict(missing)
        for _ in range(plan.rounds):
            for kind in kinds:
                for contender in racing:
                    if contender.name in failed:
                        continue
                    try:
                        rate = _once(plan, contender, pool, kind)
                    except DrainFailed as exc:
                        failed[contender.name] = str(exc).splitlines()[0]
                        continue
                    rates.setdefault((contender.name, kind), []).append(rate)
        yield _table(pool, kinds, [c.name for c in racing], rates, failed)


def _contenders(plan: Plan) -> tuple[list[Contender], dict[str, str]]:
    """Who takes part, and why others that were asked for do not."""
    found, missing = list(OURS), {}
    for contender in PEERS:
        if contender.peer not in plan.peers:
            continue
        try:
            programs(contender.peer)
        except NotInstalled as exc:
            missing[contender.name] = f"not installed: {exc}"
        else:
            found.append(contender)
    return found, missing


def _once(plan: Plan, contender: Contender, pool: str, kind: str) -> float:
    workers = 2 if pool == PREFORK else CONCURRENCY[pool]
    count = (QUICK_ITEMS if plan.quick else ITEMS)[kind] * (workers if kind == SHORT else 1)
    count = max(FEWEST_ITEMS, int(count * contender.part))
    plan.client.flushall()
    with tempfile.TemporaryDirectory(dir=plan.folder) as folder:
        setting = Setting(f"{plan.url}/0", Path(folder), pool, SECONDS[kind], count)
        return drain(contender, setting)


def _table(
    pool: str, kinds: tuple[str, ...], names: list[str],
    rates: dict[tuple[str, str], list[float]], failed: dict[str, str],
) -> Table:  # fmt: skip
    found = {
        name: {
            kind: statistics.median(rates[name, kind]) for kind in kinds if (name, kind) in rates
        }
        for name in names
    }
    note = "Median of interleaved rounds, items a second from a tenth of them to the last; ratios "
    note += f"to {PLAIN} in the same pool."
    for name, why in failed.items():
        note += f" {name}: {why}."
    return compared(
        f"{DRAIN}{pool}", note, ("", *kinds), found, basis=lambda _: PLAIN, unit="items/s"
    )
