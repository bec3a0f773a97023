"""A queue with a periodic reclaim. With BEATING_PLAIN its workers are plain Celery workers."""

import os
import time

import redis
from celery import Celery

from vtrr_queue import VTRRQueue
from vtrr_queue.celery.worker import FeederStep

URL = os.environ["BEATING_URL"]

app = Celery("beating", broker=f"{URL}/0")
vtrr = VTRRQueue(
    redis.Redis.from_url(f"{URL}/1"),
    app,
    name="beating",
    celery_queue="beating",
    lease_seconds=3,
    reclaim_interval=2,
    reclaim_queue="reclaims",
)
app.config_from_object(
    {
        "broker_connection_retry_on_startup": False,
        "beat_schedule": {"their-own": {"task": "their.own", "schedule": 3600.0}},
    }
)
if os.environ.get("BEATING_PLAIN"):
    app.steps["consumer"].discard(FeederStep)  # no feeder, no keeper


@vtrr.task
def hang(self):
    """Note the run; the first one takes longer than any test."""
    with redis.Redis.from_url(f"{URL}/2") as notes:
        notes.rpush("runs", self.request.vtrr_timeouts)
    if self.request.vtrr_timeouts == 0:
        time.sleep(600)
