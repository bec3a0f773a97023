"""How fast a producer is: ``task.queue`` beside a loop of Celery's ``apply_async``."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import redis
from celery import Celery

from vtrr_queue import VTRRQueue

if TYPE_CHECKING:
    from collections.abc import Callable


def producer_rates(url: str, rounds: int) -> dict[str, float]:
    """Median items a second of each way to enqueue, and ratios to ``apply_async``.

    Args:
        url: Server without a database number; 0 becomes the broker, 2 the state.
        rounds: Interleaved rounds.
    """
    app = Celery("bench", broker=f"{url}/0")
    client = redis.Redis.from_url(f"{url}/2")
    client.flushall()

    def function(self: Any, path: str) -> None:
        """Never runs: nothing consumes here."""

    plain = app.task(name="bench.plain", bind=True, shared=False)(function)
    fair = VTRRQueue(client, app, name="bench").task(function)
    entries = [{"args": ["path/of/a/file.pdf"]} for _ in range(10_000)]

    def loop(count: int) -> None:
        for _ in range(count):
            plain.apply_async(("path/of/a/file.pdf",))

    def singly(count: int) -> None:
        for _ in range(count):
            fair.queue("tenant", entries[:1])

    def bulk(size: int) -> Callable[[int], None]:
        def run(count: int) -> None:
            for _ in range(count // size):
                fair.queue("tenant", entries[:size])

        return run

    ways: tuple[tuple[str, int, Callable[[int], None]], ...] = (
        ("apply_async, one at a time", 300, loop),
        ("queue() of 1, trigger stands", 300, singly),
        ("queue() of 100", 3_000, bulk(100)),
        ("queue() of 10,000", 10_000, bulk(10_000)),
    )
    found: dict[str, list[float]] = {name: [] for name, _, _ in ways}
    singly(10)
    for _ in range(rounds):
        for name, count, way in ways:
            start = time.perf_counter()
            way(count)
            found[name].append(count / (time.perf_counter() - start))
    client.flushall()
    return {name: statistics.median(values) for name, values in found.items()}
