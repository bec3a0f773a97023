"""Plays recorded calls again: who would have waited how long in another order.

Arrivals and run times are those that were recorded, the number of slots is fixed, time is
simulated.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtrr_queue.simulate.report import percentile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vtrr_queue.simulate.orders import Order, Taken


@dataclass(frozen=True, slots=True)
class Call:
    """One call that ran.

    Attributes:
        partition: Whose it was.
        sent: When it could have started, s since the epoch.
        started: When it did.
        ended: When it was done.
    """

    partition: str
    sent: float
    started: float
    ended: float


@dataclass(frozen=True, slots=True)
class PartitionWaits:
    """What one partition has seen, and would have seen.

    Attributes:
        partition: Its name.
        calls: How many of its calls were recorded.
        seconds: Worker time they took, s.
        recorded: Waiting times as they were, sorted, s.
        fifo: The same in the order of arrival, played again: shows how good the model is.
        fair: The same in fair order.
    """

    partition: str
    calls: int
    seconds: float
    recorded: list[float]
    fifo: list[float]
    fair: list[float]


def replay(
    order: Order, calls: Sequence[Call], *, slots: int, charge: str = "weight"
) -> list[float]:
    """Serve calls in another order.

    Args:
        order: What gives the next one.
        calls: In the order of ``sent``.
        slots: How many run at once.
        charge: ``"weight"`` or ``"runtime"``.

    Returns:
        How long each would have waited, in the order of the calls, s.
    """
    order.rule("", {"charge": charge}, 0)
    begin, waits = (calls[0].sent if calls else 0.0), [0.0] * len(calls)
    busy: list[tuple[float, int, Taken]] = []
    coming, free = 0, slots
    while coming < len(calls) or busy:
        arrives = calls[coming].sent - begin if coming < len(calls) else float("inf")
        if busy and busy[0][0] <= arrives:
            now, _, taken = heapq.heappop(busy)
            order.end(taken, _ms(now))
            free += 1
        else:
            now = arrives
            order.put(calls[coming].partition, [str(coming)], _ms(now))
            coming += 1
        while free and (following := order.take(_ms(now))):
            free -= 1
            at = int(following[0])
            call = calls[at]
            waits[at] = now - (call.sent - begin)
            heapq.heappush(busy, (now + call.ended - call.started, at, following))
    return waits


def most_at_once(calls: Iterable[Call]) -> int:
    """How many of the calls ran at the same time, at most."""
    steps = sorted(step for call in calls for step in ((call.started, 1), (call.ended, -1)))
    most = now = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most


def compare(
    calls: Sequence[Call], fifo: Sequence[float], fair: Sequence[float]
) -> list[PartitionWaits]:
    """Waiting times by partition, those first that took most worker time.

    Args:
        calls: The calls.
        fifo: How long each waits in the order of arrival, s.
        fair: How long each waits in fair order, s.
    """
    places = defaultdict(list)
    for at, call in enumerate(calls):
        places[call.partition].append(at)
    found = [
        PartitionWaits(
            partition, len(mine), sum(calls[at].ended - calls[at].started for at in mine),
            sorted(max(0.0, calls[at].started - calls[at].sent) for at in mine),
            sorted(fifo[at] for at in mine), sorted(fair[at] for at in mine),
        )
        for partition, mine in places.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: (-one.seconds, one.partition))


def waits_table(found: Sequence[PartitionWaits], most: int = 20) -> str:
    """The median and the 95th percentile of every partition, and who waits for whom.

    Args:
        found: What :func:`compare` returned.
        most: Most partitions shown.
    """
    titles = ("calls", "worker s", "p50 s", "p95 s", "fifo p95", "fair p50", "fair p95")
    lines = [f"{'partition':>24}" + "".join(f"{title:>10}" for title in titles)]
    for one in found[:most]:
        numbers = (
            percentile(one.recorded, 50), percentile(one.recorded, 95), percentile(one.fifo, 95),
            percentile(one.fair, 50), percentile(one.fair, 95),
        )  # fmt: skip
        marks = "".join(f"{number:10.2f}" for number in numbers)
        lines.append(f"{one.partition[:24]:>24}{one.calls:10d}{one.seconds:10.1f}{marks}")
    if len(found) > most:
        lines.append(f"{'':>24}and {len(found) - most} more")
    total = sum(one.seconds for one in found) or 1.0
    if found:
        first, gaining = found[0], [one for one in found if _gain(one) > 0]
        lines.append(
            f"{first.partition!r} took {100 * first.seconds / total:.0f} % of the worker time; "
            f"in turns, {len(gaining)} of {len(found)} partitions would wait less"
        )
        best = max(found, key=_gain)
        lines.append(
            f"the most {best.partition!r}: p95 {percentile(best.fair, 95):.2f} s instead of "
            f"{percentile(best.fifo, 95):.2f} s"
        )
    return "\n".join(lines)


def _gain(one: PartitionWaits) -> float:
    return percentile(one.fifo, 95) - percentile(one.fair, 95)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
