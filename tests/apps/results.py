"""One fair task whose options, result backend and settings the environment says.

`BACKEND` is "redis" or "rpc", `CONF` and `TASK` are JSON: Celery settings, options of the task.
"""

import json
import os

import redis
from celery import Celery
from traces import Traces

from vtrr_queue import VTRRQueue

STATE = os.environ["STATE_URL"]

backend = "rpc://" if os.environ["BACKEND"] == "rpc" else f"{STATE}/1"
app = Celery("results", broker=os.environ["BROKER_URL"], backend=backend)
app.conf.broker_connection_retry_on_startup = True
app.conf.result_expires = None
app.conf.update(json.loads(os.environ.get("CONF", "{}")))
state = redis.Redis.from_url(f"{STATE}/0")
traces = Traces(f"{STATE}/2")
vtrr = VTRRQueue(state, app, name="results", dispatch=os.environ["DISPATCH"])


@vtrr.task(default_retry_delay=0.05, **json.loads(os.environ.get("TASK", "{}")))
def work(self, value, gate=None, *, retry=False):
    """Give back what it was given."""
    traces.note(self, str(value))
    if gate:
        traces.wait_at(gate)
    if retry and not self.request.retries:
        raise self.retry()
    return value
