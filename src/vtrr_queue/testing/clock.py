"""A clock that a test sets: scripts read it from a key where they would ask the server.

Invariant: it goes forward only, as leases and places in the queue rely on that.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import redis

from vtrr_queue.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.client import ScriptClient

CLOCK_KEY = "vtrr-testing:now_ms"
"""Holds the time, ms since the epoch; it lies outside of every queue."""

_clocks: WeakKeyDictionary[ScriptClient, FakeClock] = WeakKeyDictionary()
"""Clock of each queue that has one, by the queue's connection."""


class FakeClock:
    """The time as the scripts of some queues see it; it begins at the server's time and stands.

    Args:
        client: A client of the database that the queues are in.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        seconds, microseconds = client.time()
        self._now_ms = int(seconds) * 1000 + int(microseconds) // 1000
        self._client.set(CLOCK_KEY, self._now_ms)

    @property
    def now(self) -> datetime:
        """Its time, aware, UTC, in steps of 1 ms."""
        return datetime.fromtimestamp(self._now_ms / 1000, UTC)

    @property
    def now_ms(self) -> int:
        """Its time, ms since the epoch."""
        return self._now_ms

    def advance(self, by: float | timedelta) -> None:
        """Let time pass.

        Args:
            by: Seconds, or a timedelta; 0 or more.

        Raises:
            ArgumentTypeError: It is neither.
            ArgumentError: It is negative.
        """
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise ArgumentTypeError("by", by, "a number of seconds, or a timedelta")
        if not 0 <= seconds < 1e10:  # noqa: PLR2004 - and not NaN
            raise ArgumentError("by", by, "at least 0 and below 1e10 seconds")
        self._now_ms += round(seconds * 1000)
        self._client.set(CLOCK_KEY, self._now_ms)

    @contextmanager
    def used_by(self, queue: VTRRQueue) -> Iterator[None]:
        """Let the scripts of a queue read this clock, in this process."""
        client = queue.engine.client
        before, client.clock_key = client.clock_key, CLOCK_KEY
        _clocks[client] = self
        try:
            yield
        finally:
            client.clock_key = before
            del _clocks[client]


@contextmanager
def clock_of(queue: VTRRQueue) -> Iterator[FakeClock]:
    """The clock of a queue; if it has none, one that goes with the context."""
    known = _clocks.get(queue.engine.client)
    if known is not None:
        yield known
        return
    client = redis.Redis(connection_pool=queue.engine.client.pool)
    clock = FakeClock(client)
    try:
        with clock.used_by(queue):
            yield clock
    finally:
        client.unlink(CLOCK_KEY)
