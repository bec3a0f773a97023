"""RQ."""

from __future__ import annotations

import item
import redis
from rq import Queue

queue = Queue("default", connection=redis.Redis.from_url(item.URL))


def work(number: int) -> None:
    """One item."""
    item.run(number)


def fill(count: int) -> None:
    """Enqueue items with its call for many."""
    queue.enqueue_many(Queue.prepare_data(work, (number,), result_ttl=0) for number in range(count))
