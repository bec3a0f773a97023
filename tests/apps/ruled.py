"""A fair queue with policies, whose items take the time they are told to."""

import json
import os
import time

import redis
from celery import Celery
from traces import Traces

from vtrr_queue import VTRRQueue

STATE = os.environ["STATE_URL"]

app = Celery("ruled", broker=os.environ["BROKER_URL"], backend=f"{STATE}/1")
app.conf.broker_connection_retry_on_startup = True
app.conf.worker_prefetch_multiplier = 1
app.conf.task_ignore_result = True
traces = Traces(f"{STATE}/2")
vtrr = VTRRQueue(
    redis.Redis.from_url(f"{STATE}/0"),
    app,
    name="ruled",
    celery_queue="ruled",
    dispatch=os.environ["DISPATCH"],
    **json.loads(os.environ.get("QUEUE_OPTIONS", "{}")),
)


@vtrr.task
def act(self, seconds=0.0):
    """Note the run, take the time, note the end."""
    traces.note(self, seconds)
    if seconds == "until cancelled":
        deadline = time.monotonic() + 30
        while not self.request.vtrr_cancelled() and time.monotonic() < deadline:
            time.sleep(0.05)
        return traces.note_end(self)
    time.sleep(seconds)
    traces.client.rpush("worked", json.dumps([self.request.vtrr_partition, seconds]))
    return traces.note_end(self)
