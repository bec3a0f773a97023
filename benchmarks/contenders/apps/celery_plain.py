"""Plain Celery, acknowledging early or late."""

from __future__ import annotations

import os

import item
from celery import Celery

app = Celery("plain", broker=item.URL)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=os.environ["BENCH_VARIANT"] == "late",
    broker_connection_retry_on_startup=True,
)


@app.task(name="plain.item")
def work(number: int) -> None:
    """One item."""
    item.run(number)


def fill(count: int) -> None:
    """Enqueue items, as Celery does it: one by one, through one producer."""
    with app.producer_or_acquire() as producer:
        for number in range(count):
            work.apply_async((number,), producer=producer)
