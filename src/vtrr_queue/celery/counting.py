"""What a worker counts of one queue, for its statistics.

Invariant: counting never keeps a run from being settled.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from celery.utils.log import get_logger

from vtrr_queue.celery.request import Fate
from vtrr_queue.errors import VTRRError
from vtrr_queue.stats import Tally

if TYPE_CHECKING:
    from vtrr_queue.celery.holding import Ended, Held
    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.model import Lease

logger = get_logger(__name__)

COUNT_SECONDS = 1.0
"""Least pause between two additions to the queue's statistics, s."""

FEW, FEW_SECONDS = 50, 5.0
"""Fewer leases than this wait until so much time has passed, s: a call costs about a life."""

_TOTAL_OF = {
    Fate.ACK: "acked", Fate.CANCELLED: "acked", Fate.RETRY: "retried", Fate.RELEASE: "released",
}  # fmt: skip
"""The total that counts a fate; the others are counted by scripts."""


class Counter:
    """Counts leases and ends of runs, and tells the server now and then.

    Args:
        vtrr: The queue.
    """

    def __init__(self, vtrr: VTRRQueue) -> None:
        self._vtrr = vtrr
        self._tally = Tally() if vtrr.keeps_statistics else None
        self._next = -FEW_SECONDS

    def leased(self, lease: Lease, now_ms: int) -> None:
        """An item was leased, at this server time."""
        if self._tally is None:
            return
        self._tally.served(None if lease.since_ms is None else (now_ms - lease.since_ms) / 1000)
        if not self._vtrr.charges_runtime:
            self._tally.charged(lease.partition, lease.weight)

    def ended(self, end: Ended, held: Held) -> None:
        """A run has ended and the server knows."""
        if self._tally is None:
            return
        ran = time.monotonic() - held.leased_at
        failed = end.fate is Fate.FAILED or (end.fate is Fate.ACK and bool(end.exception))
        self._tally.ended(_TOTAL_OF.get(end.fate), ran, failed=failed)
        if self._vtrr.charges_runtime:
            self._tally.charged(end.lease.partition, ran)

    def tell(self, *, now: bool = False) -> None:
        """Add it to the queue's statistics, if it is time or ``now``."""
        if self._tally is None:
            return
        wait = 0.0 if self._tally.pending >= FEW else FEW_SECONDS - COUNT_SECONDS
        if not now and time.monotonic() < self._next + wait:
            return
        self._next = time.monotonic() + COUNT_SECONDS
        try:
            self._vtrr.engine.count(self._tally)
        except VTRRError as exc:
            logger.debug("queue %r: statistics wait: %s", self._vtrr.name, exc)
