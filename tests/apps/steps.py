"""Fair queues whose one task does what the item says; the environment says which queues.

`QUEUES` maps a queue's name to its arguments, `CONF` holds Celery settings, both JSON.
"""

import json
import os
import time

import redis
from celery import Celery
from impatience import ImpatientAMQP
from traces import Traces

from vtrr_queue import VTRRQueue
from vtrr_queue.celery import trigger

STATE = os.environ["STATE_URL"]

app = Celery("steps", broker=os.environ["BROKER_URL"], backend=f"{STATE}/1", amqp=ImpatientAMQP)
app.conf.broker_connection_retry_on_startup = True
app.conf.update(json.loads(os.environ.get("CONF", "{}")))
state = redis.Redis.from_url(f"{STATE}/0")
traces = Traces(f"{STATE}/2")
trigger.UNACKED_SECONDS = float(os.environ.get("UNACKED_SECONDS", trigger.UNACKED_SECONDS))


def make(name, options):
    """Make one queue and its task `steps.<name>`."""
    vtrr = VTRRQueue(state, app, name=name, dispatch=os.environ["DISPATCH"], **options)

    def step(self, gate=None, *, seconds=0, result=None):
        """Note the run, wait at a gate or for some time, return a result."""
        traces.note(self, gate)
        if gate:
            traces.wait_at(gate)
        if seconds:
            time.sleep(seconds)
        traces.note_end(self)
        return result

    step.__name__ = step.__qualname__ = name
    return vtrr, vtrr.task(step)


queues, tasks = {}, {}
for _name, _options in json.loads(os.environ["QUEUES"]).items():
    queues[_name], tasks[_name] = make(_name, _options)


@app.task(name="steps.plain", shared=False)
def plain(seconds=0):
    """Occupy a slot without any queue of ours."""
    time.sleep(seconds)
