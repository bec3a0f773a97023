"""A queue of thumbnails whose tenants take turns."""

import os

import redis
from celery import Celery

from vtrr_queue import VTRRQueue

REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379")

app = Celery("tasks", broker=f"{REDIS_URL}/0", backend=f"{REDIS_URL}/2")
app.conf.worker_prefetch_multiplier = 1

vtrr = VTRRQueue(
    redis.Redis.from_url(f"{REDIS_URL}/1"), app, name="thumbnails", celery_queue="vtrr_thumbnails"
)


@vtrr.task
def thumbnail(self, path):
    """Make a thumbnail."""
    return f"thumbnail of {path}"
