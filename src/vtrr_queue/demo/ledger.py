"""What ran and how long it waited, kept apart from Celery and from the queue."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Ledger:
    """The runs of one lane beside the runs that are due.

    Args:
        expected: Tenant -> number of its items.
    """

    def __init__(self, expected: Mapping[str, int]) -> None:
        self.expected = dict(expected)
        self.waits: dict[str, list[float]] = {tenant: [] for tenant in expected}
        self.rows = 0
        self._runs: Counter[tuple[str, int]] = Counter()

    def add(self, rows: Iterable[str | bytes]) -> None:
        """Enter runs.

        Args:
            rows: JSON arrays of tenant, number and waiting time in s.
        """
        for row in rows:
            tenant, number, waited = json.loads(row)
            self.rows += 1
            self._runs[tenant, number] += 1
            self.waits.setdefault(tenant, []).append(waited)

    @property
    def total(self) -> int:
        """Runs that are due."""
        return sum(self.expected.values())

    @property
    def complete(self) -> bool:
        """Whether as many runs are in as are due."""
        return self.rows >= self.total

    def done(self, tenant: str) -> int:
        """Runs of a tenant so far."""
        return len(self.waits[tenant])

    def faults(self) -> list[str]:
        """Say what differs from one run for each item; empty when all is well."""
        due = {(tenant, n) for tenant, count in self.expected.items() for n in range(count)}
        missing = Counter(tenant for tenant, _ in due - self._runs.keys())
        found = [f"{tenant}: {count} items did not run" for tenant, count in missing.items()]
        for (tenant, number), runs in self._runs.items():
            if (tenant, number) not in due:
                found.append(f"{tenant}: item {number} ran but was never enqueued")
            elif runs > 1:
                found.append(f"{tenant}: item {number} ran {runs} times")
        return sorted(found)
