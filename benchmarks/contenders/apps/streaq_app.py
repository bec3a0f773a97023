"""streaQ."""

from __future__ import annotations

import item
from streaq import Worker

worker = Worker(redis_url=item.URL, concurrency=item.CONCURRENCY)


@worker.task(ttl=0)
async def work(number: int) -> None:
    """One item."""
    await item.run_async(number)


async def fill(count: int) -> None:
    """Enqueue items with its call for many."""
    async with worker:
        await worker.enqueue_many([work.enqueue(number) for number in range(count)])
