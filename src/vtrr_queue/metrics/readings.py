"""What is measured, for every exporter: names, units, and figures of one moment.

Invariants: a metric is declared once, in :data:`METRICS`; partitions have labels only on request,
a bounded number of them, and those that are left out are summed, so that nothing goes uncounted.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from vtrr_queue.engine import Engine
from vtrr_queue.errors import ArgumentError, ArgumentTypeError, VTRRError
from vtrr_queue.stats import TOTALS, read_statistics
from vtrr_queue.survey import LIMIT_MAX, Survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vtrr_queue.stats import Histogram, Statistics
    from vtrr_queue.survey import Overview

logger = logging.getLogger(__name__)

OTHER = "other"
"""Label of all partitions that have none of their own; one that is called so is among them."""

FRESH_SECONDS = 0.5
"""Figures of this age are given out again: one scrape may ask several times."""

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """Something that is measured.

    Attributes:
        name: In words, without prefix and unit.
        unit: ``items``, ``partitions``, ``seconds``, ``ratio``, or empty.
        about: What it says.
        kind: Whether it only rises; of a histogram every bucket does.
        of_partitions: Whether it has a partition label besides the queue's.
    """

    name: str
    unit: str
    about: str
    kind: Kind = "gauge"
    of_partitions: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its labels."""
        return ("queue", "partition") if self.of_partitions else ("queue",)


METRICS = (
    Metric("up", "", "1 when Redis answered, else 0; the others are then missing."),
    Metric("waiting", "items", "Items in the backlogs."),
    Metric("delayed", "items", "Items whose time has not come."),
    Metric("running", "items", "Items that are leased."),
    Metric("dead", "items", "Dead letters."),
    Metric("active", "partitions", "Partitions with something waiting or running."),
    Metric("servable", "partitions", "Partitions that may be served now."),
    Metric("paused", "", "1 while the whole queue is paused, else 0."),
    Metric("outstanding_triggers", "", "Triggers that were sent and not yet used."),
    Metric("oldest_waiting", "seconds", "Age of the oldest waiting item; 0 when none waits."),
    Metric("partition_waiting", "items", "Items in its backlogs.", of_partitions=True),
    Metric("partition_running", "items", "Items of it that are leased.", of_partitions=True),
    Metric("partition_oldest_waiting", "seconds", "Age of its oldest waiting item.",
           of_partitions=True),
    Metric("partition_share_used", "ratio", "Its part of what was served.",
           of_partitions=True),
    Metric("partition_share_due", "ratio", "The part that its share entitles it to.",
           of_partitions=True),
    Metric("served", "items", "Leases given to workers.", "counter"),
    Metric("acked", "items", "Runs that took their item with them, failures too.", "counter"),
    Metric("failed", "items", "Runs that ended with an exception and no retry.", "counter"),
    Metric("retried", "items", "Runs that ended with a Celery retry.", "counter"),
    Metric("released", "items", "Runs whose item was put back without blame.", "counter"),
    Metric("timed_out", "items", "Runs that were lost: killed or beyond their lease.", "counter"),
    Metric("died", "items", "Items that became dead letters.", "counter"),
    Metric("waiting_time", "seconds", "From when an item could be served to its lease.",
           "histogram"),
    Metric("run_time", "seconds", "From a lease to the end of its run.", "histogram"),
)  # fmt: skip
"""All of them; figures may come for these names only."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number.

    Attributes:
        metric: Name of a :class:`Metric`.
        labels: Values of its labels, in their order.
        value: The number, in the metric's unit, or the histogram.
    """

    metric: str
    labels: tuple[str, ...]
    value: float | Histogram


class Queue(Protocol):
    """What is needed of a :class:`~vtrr_queue.VTRRQueue`."""

    @property
    def engine(self) -> Engine:
        """The queue in Redis."""


class Readings:
    """Takes the figures of queues.

    Args:
        queues: A :class:`~vtrr_queue.VTRRQueue` each, or an engine.
        top: How many partitions have labels, those with the largest backlogs; 0 to 1000.
        partitions: Names of those that have labels, instead of the largest.

    Raises:
        ArgumentError: A value is out of range, or both ways to choose partitions are used.
        ArgumentTypeError: A type is wrong.
    """

    def __init__(
        self, queues: Sequence[Queue | Engine], *, top: int = 0, partitions: Iterable[str] = ()
    ) -> None:
        self._engines = [_engine(queue) for queue in queues]
        names = [engine.keys.name for engine in self._engines]
        if not names or len(set(names)) < len(names):
            raise ArgumentError("queues", names, "one queue or more, of different names")
        self._top, self._partitions = _check_top(top), _check_names(partitions)
        if self._top and self._partitions:
            raise ArgumentError("top", top, "0 where partitions are named")
        self._surveys = [Survey(engine) for engine in self._engines]
        self._one_at_a_time = threading.Lock()
        self._taken, self._figures = -FRESH_SECONDS, list[Figure]()

    def take(self) -> list[Figure]:
        """Figures of now, or of a moment ago."""
        with self._one_at_a_time:
            if time.monotonic() - self._taken >= FRESH_SECONDS:
                self._figures = [figure for at in range(len(self._engines))
                                 for figure in self._of_queue(at)]  # fmt: skip
                self._taken = time.monotonic()
            return self._figures

    def _of_queue(self, at: int) -> list[Figure]:
        engine, name = self._engines[at], self._engines[at].keys.name
        try:
            return [
                *self._of_engine(engine, self._surveys[at]),
                Figure("up", (name,), 1),
            ]
        except VTRRError as exc:
            logger.warning("no metrics of queue %r: %s", name, exc)
            return [Figure("up", (name,), 0)]

    def _of_engine(self, engine: Engine, survey: Survey) -> Iterator[Figure]:
        named = self._partitions
        overview = survey.of(named) if named else survey.look(limit=self._top)
        first = survey.look(sort="oldest", limit=1).rows
        (triggers,) = engine.client.read(("ZCARD", engine.keys["triggers"]))
        values = {
            "waiting": overview.waiting, "delayed": overview.delayed, "running": overview.running,
            "dead": overview.dead, "active": overview.partitions, "servable": overview.servable,
            "paused": int(overview.paused), "outstanding_triggers": triggers,
        }  # fmt: skip
        for metric, value in values.items():
            yield Figure(metric, (overview.name,), value)
        age = first[0].oldest if first else 0.0
        if age is not None:
            yield Figure("oldest_waiting", (overview.name,), age)
        statistics = read_statistics(engine.client, engine.keys)
        if self._top or self._partitions:
            yield from _of_partitions(overview, known=bool(overview.running or statistics.service))
        if statistics.since_ms is not None:
            yield from _so_far(overview.name, statistics)


def _so_far(queue: str, statistics: Statistics) -> Iterator[Figure]:
    """What workers have counted."""
    for total in TOTALS:
        name = "died" if total == "dead" else total
        yield Figure(name, (queue,), getattr(statistics, total))
    yield Figure("waiting_time", (queue,), statistics.waited)
    yield Figure("run_time", (queue,), statistics.ran)


def _of_partitions(overview: Overview, *, known: bool) -> Iterator[Figure]:
    """Figures of the chosen partitions, and of all others together.

    Args:
        overview: Its rows are the chosen ones.
        known: Whether anything was served, so that there are parts of it.
    """
    rows = [row for row in overview.rows if row.name != OTHER]
    for row in rows:
        labels = (overview.name, row.name)
        yield Figure("partition_waiting", labels, row.waiting)
        yield Figure("partition_running", labels, row.running)
        yield Figure("partition_share_used", labels, row.used)
        yield Figure("partition_share_due", labels, row.due)
        if row.oldest is not None:
            yield Figure("partition_oldest_waiting", labels, row.oldest)
    rest = (overview.name, OTHER)
    waiting = overview.waiting - sum(row.waiting for row in rows)
    running = overview.running - sum(row.running for row in rows)
    used = 1 - sum(row.used for row in rows) if known else 0.0
    due = 1 - sum(row.due for row in rows) if overview.partitions > len(rows) else 0.0
    yield Figure("partition_waiting", rest, max(0, waiting))
    yield Figure("partition_running", rest, max(0, running))
    yield Figure("partition_share_used", rest, max(0.0, used))
    yield Figure("partition_share_due", rest, max(0.0, due))


def _engine(queue: object) -> Engine:
    engine = getattr(queue, "engine", queue)
    if not isinstance(engine, Engine):
        raise ArgumentTypeError("queues", queue, "a VTRRQueue or an Engine")
    return engine


def _check_top(top: object) -> int:
    if isinstance(top, bool) or not isinstance(top, int):
        raise ArgumentTypeError("top", top, "an integer")
    if not 0 <= top <= LIMIT_MAX:
        raise ArgumentError("top", top, f"from 0 to {LIMIT_MAX}")
    return top


def _check_names(partitions: object) -> tuple[str, ...]:
    if isinstance(partitions, str) or not isinstance(partitions, list | tuple | set | frozenset):
        raise ArgumentTypeError("partitions", partitions, "a list of names")
    for name in partitions:
        if not isinstance(name, str):
            raise ArgumentTypeError("partitions", name, "names that are strings")
    if len(partitions) > LIMIT_MAX:
        raise ArgumentError("partitions", len(partitions), f"at most {LIMIT_MAX} names")
    return tuple(dict.fromkeys(partitions))
