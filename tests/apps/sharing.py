"""Two queues on one Celery queue, so that one worker runs both."""

import os
import time

import redis
from celery import Celery

from vtrr_queue import VTRRQueue

URL = os.environ["SHARING_URL"]

app = Celery("sharing", broker=f"{URL}/0")
app.conf.update(broker_connection_retry_on_startup=False, worker_prefetch_multiplier=1)


def make(name):
    """Make a queue."""
    return VTRRQueue(
        redis.Redis.from_url(f"{URL}/1"),
        app,
        name=name,
        celery_queue="shared",
        dispatch=os.environ["SHARING_DISPATCH"],
    )


def note(text):
    """Note a run of 15 ms."""
    time.sleep(0.015)
    with redis.Redis.from_url(f"{URL}/2") as notes:
        notes.rpush("runs", text)


long, short = make("long"), make("short")


@long.task
def dig(self, number):
    """Run an item of the long queue."""
    note(f"long {number}")


@short.task
def pick(self, number):
    """Run an item of the short queue."""
    note(f"short {number}")


@app.task(shared=False)
def nap():
    """Occupy the slot without being an item."""
    note("nap begins")
    time.sleep(0.5)
    note("nap ends")
