"""A fair queue on a primary that Sentinel names; traces and broker are elsewhere."""

import json
import os
import time

from celery import Celery
from redis.sentinel import Sentinel
from traces import Traces

from vtrr_queue import VTRRQueue

BROKER = os.environ["BROKER_URL"]
sentinel = Sentinel([tuple(each) for each in json.loads(os.environ["SENTINELS"])], socket_timeout=1)

app = Celery("guarded", broker=BROKER)
app.conf.broker_connection_retry_on_startup = True
app.conf.task_ignore_result = True
traces = Traces(BROKER.rsplit("/", 1)[0] + "/2")
vtrr = VTRRQueue(
    sentinel.master_for("mymaster"), app, name="guarded", celery_queue="guarded",
    dispatch=os.environ["DISPATCH"], lease_seconds=4, heartbeat=True, trigger_timeout=5,
    socket_timeout=1,
)  # fmt: skip


@vtrr.task
def act(self):
    """Take a moment."""
    traces.note(self)
    time.sleep(0.02)
    traces.note_end(self)
