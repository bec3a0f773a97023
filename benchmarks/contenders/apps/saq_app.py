"""SAQ."""

from __future__ import annotations

import asyncio

import item
from saq import Queue

queue = Queue.from_url(item.URL)


async def work(_context: object, *, number: int) -> None:
    """One item."""
    await item.run_async(number)


settings = {"queue": queue, "functions": [work], "concurrency": item.CONCURRENCY}


async def fill(count: int) -> None:
    """Enqueue items, a hundred calls at a time; nothing is kept of a finished one."""
    await queue.connect()
    for at in range(0, count, 100):
        numbers = range(at, min(count, at + 100))
        await asyncio.gather(*(queue.enqueue("work", number=n, ttl=-1) for n in numbers))
    await queue.disconnect()
