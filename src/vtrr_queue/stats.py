"""What a queue's workers have done: totals, how long items waited and ran, who was served.

Workers count here, in memory, and one script adds it up once a second, so statistics cost an item
nothing on the server (docs/design/0009-statistics.md). What only a script sees, lost runs and dead
letters, the scripts count.

Invariant: a batch is added once, whatever becomes of replies; a worker that is killed takes with it
what it has counted in its last second.
"""

from __future__ import annotations

import secrets
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtrr_queue.model import SLOT_MS, SLOTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtrr_queue.client import ScriptClient
    from vtrr_queue.keys import QueueKeys

BOUNDS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
    1800.0, 3600.0, 14_400.0, 86_400.0,
)  # fmt: skip
"""Upper bounds of the buckets of both histograms, s; the last one after them has no bound."""

TOTALS = ("served", "acked", "failed", "retried", "released", "timed_out", "dead")
"""Names of the totals."""

KEEP_MS = 30 * 86_400_000
"""How long totals are kept after a worker last counted, ms."""

MOST_ENTRIES = 250
"""Most names and amounts in one batch, so that it blocks the server for less than a millisecond."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """How long something took, by size.

    Attributes:
        counts: How many lay within each of :data:`BOUNDS` and above the one before; the last
            counts those above all of them.
        sum_seconds: All of them together, s.
    """

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    sum_seconds: float = 0.0

    @property
    def count(self) -> int:
        """How many were measured."""
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """About how long the shortest ``share`` of them took at most, s; None when there is none.

        Inside a bucket they are taken to be spread evenly, as Prometheus' ``histogram_quantile``
        does; above the last bound the answer is that bound.
        """
        wanted, seen, low = share * self.count, 0, 0.0
        if not self.count:
            return None
        for bound, count in zip(BOUNDS, self.counts, strict=False):
            if count and seen + count >= wanted:
                return low + (bound - low) * (wanted - seen) / count
            seen, low = seen + count, bound
        return BOUNDS[-1]


@dataclass(frozen=True, slots=True)
class Statistics:
    """What workers have done since statistics are kept.

    Attributes:
        served: Leases given to workers.
        acked: Runs that ended and took their item with them, failures that are not kept included.
        failed: Runs that ended with an exception and were not retried.
        retried: Runs that ended with a Celery retry.
        released: Runs that were broken off and whose item was put back without blame.
        timed_out: Runs that were lost: killed, out of time, or beyond their lease.
        dead: Items that became dead letters.
        waited: From when an item could be served to its lease.
        ran: From a lease to the end of its run.
        service: Partition -> what it was charged in the last five to six minutes: turns, or
            seconds where run time is the charge. ``""`` holds the sum of those that were not among
            the first thousand of a minute.
        window_seconds: How long that was.
        since_ms: When a worker counted first, server clock; None when none has.
    """

    served: int
    acked: int
    failed: int
    retried: int
    released: int
    timed_out: int
    dead: int
    waited: Histogram
    ran: Histogram
    service: Mapping[str, float]
    window_seconds: float
    since_ms: int | None = None


class Tally:
    """Counts in memory what one worker sees of one queue; its methods are called by any thread.

    Attributes:
        pending: Leases since :meth:`batches` was called last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counter[str]()
        self._charges = defaultdict[str, float](float)
        # The first one is empty: it makes the key by which scripts know that they should count.
        self.pending = 0
        self._batches = [Batch(secrets.token_hex(8), (), ())]

    def served(self, waited_seconds: float | None) -> None:
        """An item was leased that could be served for so long; None when that is not known."""
        with self._lock:
            self._counts["served"] += 1
            self.pending += 1
            if waited_seconds is not None:
                self._measured("wait", max(0.0, waited_seconds))

    def charged(self, partition: str, amount: float) -> None:
        """A partition was served to this amount."""
        with self._lock:
            self._charges[partition] += amount

    def ended(self, total: str | None, ran_seconds: float, *, failed: bool = False) -> None:
        """A run ended in one of the ways of :data:`TOTALS`; None for one that a script counts."""
        with self._lock:
            if total is not None:
                self._counts[total] += 1
            self._counts["failed"] += failed
            self._measured("run", ran_seconds)

    def batches(self) -> list[Batch]:
        """What is to be added, with what could not be added before; :meth:`added` takes it off."""
        with self._lock:
            counts = [(name, f"{value}") for name, value in self._counts.items() if value]
            charges = [(name, f"{value:.6f}") for name, value in self._charges.items()]
            self._counts.clear()
            self.pending = 0
            self._charges.clear()
            for at in range(0, len(charges) or bool(counts), MOST_ENTRIES):
                totals = counts if at == 0 else []
                part = charges[at : at + MOST_ENTRIES]
                self._batches.append(Batch(secrets.token_hex(8), tuple(totals), tuple(part)))
            return list(self._batches)

    def added(self, batch: Batch) -> None:
        """A batch has reached the server."""
        with self._lock:
            self._batches.remove(batch)

    def _measured(self, kind: str, seconds: float) -> None:
        self._counts[f"{kind}:{bisect_left(BOUNDS, seconds)}"] += 1
        self._counts[f"{kind}_us"] += round(seconds * 1e6)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one call adds.

    Attributes:
        echo: Its name: the server adds a batch once.
        totals: Names and amounts of the ``stats`` hash.
        charges: Partitions and amounts of the ``service`` hash.
    """

    echo: str
    totals: tuple[tuple[str, str], ...]
    charges: tuple[tuple[str, str], ...]

    def arguments(self, remember_ms: int) -> tuple[object, ...]:
        """As ``scripts/count.lua`` takes it."""
        entries = (text for pair in (*self.totals, *self.charges) for text in pair)
        return (remember_ms, KEEP_MS, len(self.totals), *entries)


def read_statistics(client: ScriptClient, keys: QueueKeys) -> Statistics:
    """Add up what the workers of a queue have counted.

    Args:
        client: Asks the server.
        keys: Of the queue.
    """
    (totals, now) = client.read(("HGETALL", keys["stats"]), ("TIME",))
    now_ms = int(now[0]) * 1000 + int(now[1]) // 1000
    slot = now_ms // SLOT_MS
    minutes = client.read(*(("HGETALL", keys.service(slot - n)) for n in range(SLOTS + 1)))
    service = defaultdict[str, float](float)
    for reply in minutes:
        for name, amount in _pairs(reply):
            service[name.decode()] += float(amount)
    values = {name.decode(): int(value) for name, value in _pairs(totals)}
    window = (SLOTS * SLOT_MS + now_ms % SLOT_MS) / 1000
    return Statistics(
        **{name: values.get(name, 0) for name in TOTALS},
        waited=_histogram(values, "wait"), ran=_histogram(values, "run"),
        service=dict(service), window_seconds=window, since_ms=values.get("since"),
    )  # fmt: skip


def _histogram(values: Mapping[str, int], kind: str) -> Histogram:
    counts = tuple(values.get(f"{kind}:{n}", 0) for n in range(len(BOUNDS) + 1))
    return Histogram(counts, values.get(f"{kind}_us", 0) / 1e6)


def _pairs(reply: list[Any]) -> list[tuple[bytes, bytes]]:
    return list(zip(reply[::2], reply[1::2], strict=True))
