"""Leases taken before their slot is free, for tasks of a few milliseconds.

A worker that leases one item for each that has ended waits for the server as long as the item
runs. With some in store the next starts at once, and several are settled and leased in one round
trip (docs/design/0011-short-runs.md).

Invariants: nothing is taken ahead while runs are long; what has not started soon is given back.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vtrr_queue.celery.holding import Held

START_SECONDS = 0.05
"""What is taken ahead should start within so long, s: the longer runs are, the less is taken."""

STALE_SECONDS = 0.25
"""What has not started by then is given back: a run is longer than those before it, s."""

SETTLE_SECONDS = 0.02
"""Longest an end waits for others, to be settled in one round trip with them, s."""

SMOOTHING = 0.1
"""Part of the newest run in the mean of the runs' lengths."""


class Ahead:
    """Leases of one queue in one worker that wait for a slot.

    Args:
        prefetch: Most of them for each slot of the pool.
    """

    def __init__(self, prefetch: int) -> None:
        self._prefetch = prefetch
        self._held: deque[Held] = deque()
        self._mean = 0.0
        self._seen = False
        self._waits_since = 0.0

    def __len__(self) -> int:
        return len(self._held)

    def ran(self, seconds: float) -> None:
        """A run took so long."""
        if self._prefetch:
            self._mean += (seconds - self._mean) * (SMOOTHING if self._seen else 1.0)
            self._seen = True

    def wanted(self, slots: int) -> int:
        """How many a pool of so many slots should have in store."""
        if not self._seen:
            return 0
        return slots * min(self._prefetch, int(START_SECONDS / max(self._mean, 1e-6)))

    def put(self, held: Held) -> None:
        """Store one."""
        self._held.append(held)

    def take(self, count: int) -> list[Held]:
        """The next so many to start, as far as there are any."""
        taken: list[Held] = []
        while len(taken) < count and self._held:
            taken.append(self._held.popleft())
        return taken

    def stale(self, *, everything: bool) -> list[Held]:
        """Take all out when the first waits for too long, or ``everything`` anyway.

        All of them, or those behind it would start before it.
        """
        first = self._first()
        overdue = first is not None and time.monotonic() - first.leased_at > STALE_SECONDS
        if not (everything or overdue):
            return []
        if overdue:  # a run is at least so long: lease no more ahead until runs are short again
            self._mean = max(self._mean, STALE_SECONDS)
        return self.take(len(self._held))

    def next_due(self) -> float | None:
        """Monotonic time at which the first gets stale; None when there is none."""
        held = self._first()
        return None if held is None else held.leased_at + STALE_SECONDS

    def may_wait(self, slots: int) -> bool:
        """Whether what has ended may be settled later: there is enough in store until then."""
        if not self._held or 2 * len(self._held) < self.wanted(slots):
            self._waits_since = 0.0
            return False
        now = time.monotonic()
        self._waits_since = self._waits_since or now
        if now - self._waits_since < SETTLE_SECONDS:
            return True
        self._waits_since = 0.0
        return False

    def _first(self) -> Held | None:
        return next(iter(tuple(self._held)), None)
