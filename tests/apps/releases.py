"""A fair queue as two releases of the library define it, side by side on the same keys."""

import os
import time

import redis
from celery import Celery
from traces import Traces

import vtrr_queue
from vtrr_queue import VTRRQueue

STATE = os.environ["STATE_URL"]
OF_THIS_RELEASE = (
    {"heartbeat": True, "max_timeouts": 50, "on_failure": "dead"}
    if os.environ.get("RELEASE", "this") == "this"
    else {}
)

app = Celery("releases", broker=os.environ["BROKER_URL"])
app.conf.broker_connection_retry_on_startup = True
app.conf.task_ignore_result = True
traces = Traces(f"{STATE}/2")
vtrr = VTRRQueue(
    redis.Redis.from_url(f"{STATE}/0"),
    app,
    name="releases",
    celery_queue="releases",
    dispatch=os.environ["DISPATCH"],
    lease_seconds=4,
    trigger_timeout=2,
    **OF_THIS_RELEASE,
)


@vtrr.task(max_retries=2, default_retry_delay=0.1)
def act(self, deed):
    """Take a moment; fail or retry as told."""
    traces.note(self, deed, vtrr_queue.__file__)
    time.sleep(0.02)
    if deed == "retry" and self.request.retries < 2:
        raise self.retry()
    traces.note_end(self)
    if deed == "fail":
        raise ValueError("as told")
