"""A fair queue whose items do nothing, or run into their soft time limit."""

import os
import time

import redis
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

from vtrr_queue import VTRRQueue

STATE = os.environ["STATE_URL"]

app = Celery("growing", broker=os.environ["BROKER_URL"])
app.conf.broker_connection_retry_on_startup = True
app.conf.task_ignore_result = True
app.conf.worker_max_tasks_per_child = None
# A client of the function: redis-py may leak its connections when a soft limit breaks a read.
mine = redis.Redis.from_url(f"{STATE}/0", client_name="mine")
traces = None
vtrr = VTRRQueue(
    redis.Redis.from_url(f"{STATE}/0", client_name="ours"), app,
    name="growing", celery_queue="growing",
    dispatch=os.environ["DISPATCH"],
    lease_seconds=30, heartbeat=True,
)  # fmt: skip


@vtrr.task(soft_time_limit=0.02, max_retries=None)
def act(self, deed):
    """Do nothing, or work with Redis until the soft limit comes."""
    if deed != "limit":
        return
    # Python drops what a signal handler raises inside a finalizer, so now and then none comes.
    until = time.monotonic() + 2
    try:
        while time.monotonic() < until:
            mine.incr("counter:mine")
            time.sleep(0.0005)
    except SoftTimeLimitExceeded:
        mine.incr("counter:limits")
