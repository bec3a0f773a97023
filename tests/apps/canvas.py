"""Fair and plain tasks that are linked, chained and grouped."""

import os

import redis
from celery import Celery
from traces import Traces

from vtrr_queue import VTRRQueue

STATE = os.environ["STATE_URL"]

app = Celery("canvas", broker=os.environ["BROKER_URL"], backend=f"{STATE}/1")
app.conf.update(broker_connection_retry_on_startup=True, result_extended=True)
app.conf.task_default_queue = "canvas-plain"
state = redis.Redis.from_url(f"{STATE}/0")
traces = Traces(f"{STATE}/2")

_common = {"dispatch": os.environ["DISPATCH"], "celery_queue": "canvas-fair"}
doubling = VTRRQueue(state, app, name="doubling", **_common)
collecting = VTRRQueue(state, app, name="collecting", **_common)


@doubling.task(max_retries=3, default_retry_delay=0.05)
def double(self, number, *, retries=0, gate=None):
    """Double a number, after some retries or a gate; fail below zero."""
    traces.note(self, number)
    if gate:
        traces.wait_at(gate)
    if self.request.retries < retries:
        raise self.retry()
    if number < 0:
        raise ValueError(f"{number} is below zero")
    return number * 2


@collecting.task(partition_by=lambda numbers: f"sum of {len(numbers)}")
def total(self, numbers):
    """Add up what a chord collected."""
    traces.note(self, numbers)
    return sum(numbers)


@app.task(bind=True, name="canvas.increase", shared=False)
def increase(self, number, by=1):
    """Add to a number; a task without any queue of ours."""
    traces.note(self, number)
    return number + by


@app.task(bind=True, name="canvas.add_up", shared=False)
def add_up(self, numbers):
    """Add up what a chord collected, without any queue of ours."""
    traces.note(self, numbers)
    return sum(numbers)


@app.task(name="canvas.mourn", shared=False)
def mourn(request, exc, traceback):
    """Be told of a failure; Celery passes all this to tasks that are not bound."""
    traces.client.rpush("mourned", f"{request.id} {exc}")
