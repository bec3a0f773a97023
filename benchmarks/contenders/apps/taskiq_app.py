"""taskiq with the broker of taskiq-redis that acknowledges: streams."""

from __future__ import annotations

import asyncio

import item
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(item.URL)


@broker.task
async def work(number: int) -> None:
    """One item."""
    await item.run_async(number)


async def fill(count: int) -> None:
    """Enqueue items, a hundred calls at a time."""
    await broker.startup()
    for at in range(0, count, 100):
        numbers = range(at, min(count, at + 100))
        await asyncio.gather(*(work.kiq(number) for number in numbers))
    await broker.shutdown()
