"""huey."""

from __future__ import annotations

import item
from huey import RedisHuey

huey = RedisHuey("bench", url=item.URL, results=False)


@huey.task()
def work(number: int) -> None:
    """One item."""
    item.run(number)


def fill(count: int) -> None:
    """Enqueue items one by one; it has no call for many."""
    for number in range(count):
        work(number)
