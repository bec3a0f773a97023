"""A queue of reports whose tenants take turns."""

import os

import redis
from celery import Celery

from vtrr_queue import VTRRQueue

REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379")

app = Celery("tasks", broker=f"{REDIS_URL}/0", backend=f"{REDIS_URL}/2")
app.conf.worker_prefetch_multiplier = 1

vtrr = VTRRQueue(
    redis.Redis.from_url(f"{REDIS_URL}/1"),
    app,
    name="reports",
    celery_queue="vtrr_reports",
    lease_seconds=30,
    heartbeat=True,
)


@vtrr.task(autoretry_for=(ConnectionError,), retry_backoff=True, max_retries=3)
def report(self, name):
    """Make a report; the mail server does not answer the first time."""
    if name == "mail" and self.request.retries == 0:
        raise ConnectionError("the mail server does not answer")
    return f"{self.request.vtrr_partition}: {name}"
