"""dramatiq."""

from __future__ import annotations

import dramatiq
import item
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=item.URL))


@dramatiq.actor
def work(number: int) -> None:
    """One item."""
    item.run(number)


def fill(count: int) -> None:
    """Enqueue items one by one; it has no call for many."""
    for number in range(count):
        work.send(number)
