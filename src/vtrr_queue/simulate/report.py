"""What is told of a simulation."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vtrr_queue.simulate.pool import Run


def jain(values: Iterable[float]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one has everything.

    Source:
        Jain, Chiu, Hawe 1984, "A quantitative measure of fairness and discrimination".
    """
    numbers = list(values)
    squares = sum(x * x for x in numbers)
    return sum(numbers) ** 2 / (len(numbers) * squares) if squares else 1.0


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest-rank percentile of sorted values; 0 when there are none."""
    return values[min(len(values) - 1, int(len(values) * percent / 100))] if values else 0.0


def table(run: Run) -> str:
    """Waiting times per group, worker time used and Jain's index."""
    used, groups = run.worker_seconds(), defaultdict(list)
    for tenant in run.tenants:
        groups[tenant.group or tenant.name].append(tenant.name)
    total = sum(used.values()) or 1.0
    titles = ("tenants", "served", "p50 s", "p95 s", "p99 s", "time %")
    lines = [f"{'group':>14}" + "".join(f"{title:>10}" for title in titles)]
    for group, names in groups.items():
        waits = run.waits(group)
        share = 100 * sum(used[name] for name in names) / total
        marks = "".join(f"{percentile(waits, percent):10.2f}" for percent in (50, 95, 99))
        lines.append(f"{group:>14}{len(names):10d}{len(waits):10d}{marks}{share:10.1f}")
    due = [used[t.name] / float(t.policy.get("share", 1)) for t in run.tenants]
    lines.append(f"worker time per share, Jain's index over {len(due)} tenants: {jain(due):.3f}")
    return "\n".join(lines)
