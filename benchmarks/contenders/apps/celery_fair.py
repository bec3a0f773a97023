"""vtrr-queue: ten tenants; the variant is the dispatch and, behind a space, the prefetch."""

from __future__ import annotations

import os

import item
import redis
from celery import Celery

from vtrr_queue import VTRRQueue

TENANTS = 10
DISPATCH, _, PREFETCH = os.environ["BENCH_VARIANT"].partition(" ")

app = Celery("fair", broker=item.URL)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)
vtrr = VTRRQueue(
    redis.Redis.from_url(item.URL),
    app,
    name="fair",
    celery_queue="fair",
    dispatch=DISPATCH,
    prefetch=int(PREFETCH or 0),
    max_concurrency=8,
)


@vtrr.task
def work(_self: object, number: int) -> None:
    """One item."""
    item.run(number)


def fill(count: int) -> None:
    """Enqueue items, the tenants' shares one after another."""
    for tenant in range(TENANTS):
        entries = [{"args": [number]} for number in range(tenant, count, TENANTS)]
        work.queue(f"tenant{tenant}", entries)
