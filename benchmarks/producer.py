"""How fast a producer is: ``task.queue`` beside a loop of Celery's ``apply_async``."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import TYPE_CHECKING

import redis
from celery import Celery

from vtrr_queue import VTRRQueue

if TYPE_CHECKING:
    from collections.abc import Callable


ARGS = ("path/of/a/file.pdf",)


class Producer:
    """One app with a plain and a fair task, which nothing consumes.

    Args:
        url: Server without a database number; 0 becomes the broker, 2 the state.
    """

    def __init__(self, url: str) -> None:
        app = Celery("bench", broker=f"{url}/0")
        self.client = redis.Redis.from_url(f"{url}/2")
        self.client.flushall()
        self._plain = app.task(name="bench.plain", shared=False)(_never_runs)
        self._fair = VTRRQueue(self.client, app, name="bench").task(_never_runs)
        sending = VTRRQueue(self.client, app, name="sending", max_concurrency=10_000)
        self._sending = sending.task(_never_runs_either)
        self._entries = [{"args": ARGS} for _ in range(10_000)]

    def apply_async(self, count: int) -> None:
        """Celery's own way, one call an item."""
        for _ in range(count):
            self._plain.apply_async(ARGS)

    def queue(self, count: int, size: int) -> None:
        """Enqueue ``count`` items in calls of ``size``."""
        for _ in range(count // size):
            self._fair.queue("tenant", self._entries[:size])

    def queue_and_send(self, count: int) -> None:
        """Enqueue items one by one, each with a trigger that is published."""
        for _ in range(count):
            self._sending.queue("tenant", self._entries[:1])


def _never_runs(path: str) -> None:
    """Body of two tasks."""


def _never_runs_either(path: str) -> None:
    """Body of the third: a task belongs to one queue."""


def producer_rates(url: str, rounds: int) -> dict[str, float]:
    """Median items a second of each way to enqueue.

    Args:
        url: Server without a database number; 0 becomes the broker, 2 the state.
        rounds: Interleaved rounds.
    """
    producer = Producer(url)
    ways: tuple[tuple[str, int, Callable[[int], None]], ...] = (
        ("apply_async, one at a time", 300, producer.apply_async),
        ("queue() of 1, trigger stands", 300, partial(producer.queue, size=1)),
        ("queue() of 1, trigger sent", 300, producer.queue_and_send),
        ("queue() of 100", 3_000, partial(producer.queue, size=100)),
        ("queue() of 10,000", 10_000, partial(producer.queue, size=10_000)),
    )
    found: dict[str, list[float]] = {name: [] for name, _, _ in ways}
    producer.queue(10, 1)
    producer.queue_and_send(1)
    for _ in range(rounds):
        for name, count, way in ways:
            start = time.perf_counter()
            way(count)
            found[name].append(count / (time.perf_counter() - start))
    producer.client.flushall()
    return {name: statistics.median(values) for name, values in found.items()}
