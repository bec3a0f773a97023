"""arq."""

from __future__ import annotations

import asyncio

import item
from arq import create_pool
from arq.connections import RedisSettings

SETTINGS = RedisSettings.from_dsn(item.URL)


async def work(_context: object, number: int) -> None:
    """One item."""
    await item.run_async(number)


class WorkerSettings:
    """What its command reads; it polls every 10 ms, as otherwise it waits more than it works."""

    functions = (work,)
    redis_settings = SETTINGS
    max_jobs = item.CONCURRENCY
    poll_delay = 0.01
    keep_result = 0


async def fill(count: int) -> None:
    """Enqueue items, a hundred calls at a time."""
    pool = await create_pool(SETTINGS)
    for at in range(0, count, 100):
        numbers = range(at, min(count, at + 100))
        await asyncio.gather(*(pool.enqueue_job("work", number) for number in numbers))
    await pool.aclose()
