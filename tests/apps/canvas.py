"""Fair and plain tasks that are linked, chained and grouped."""

import json
import os

import redis
from celery import Celery, signals
from traces import Traces

from vtrr_queue import VTRRQueue

STATE = os.environ["STATE_URL"]

app = Celery("canvas", broker=os.environ["BROKER_URL"], backend=f"{STATE}/1")
app.conf.update(broker_connection_retry_on_startup=True, result_extended=True)
app.conf.result_expires = None  # Celery calls what a new redis-py warns of
app.conf.task_default_queue = "canvas-plain"
state = redis.Redis.from_url(f"{STATE}/0")
traces = Traces(f"{STATE}/2")

_common = {"dispatch": os.environ["DISPATCH"], "celery_queue": "canvas-fair"}
doubling = VTRRQueue(state, app, name="doubling", **_common)
collecting = VTRRQueue(state, app, name="collecting", **_common)


def note(task, *args):
    """Say that it runs, its place in a workflow, and a header of the caller's own."""
    traces.note(task, *args)
    request = task.request
    ids = {"root": request.root_id, "parent": request.parent_id, "group": request.group,
           "mark": getattr(request, "mark", None)}  # fmt: skip
    traces.client.hset("ids", request.id or "called", json.dumps(ids))


@doubling.task(max_retries=3, default_retry_delay=0.05)
def double(self, number, *, retries=0, gate=None):
    """Double a number, after some retries or a gate; fail below zero."""
    note(self, number)
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
    note(self, numbers)
    return sum(numbers)


@app.task(bind=True, name="canvas.increase", shared=False)
def increase(self, number, by=1):
    """Add to a number; a task without any queue of ours."""
    note(self, number)
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


@app.task(bind=True, name="canvas.spawn", shared=False)
def spawn(self, number):
    """Enqueue an item from inside a plain task."""
    return double.apply_async((number,), partition_key="spawned").id


def tell(signal, task_id, args, **more):
    """Keep what a signal said."""
    said = {"signal": signal, "id": task_id, "args": list(args), **more}
    traces.client.rpush("signals", json.dumps(said))


def on_prerun(task_id, task, args, kwargs, **_):
    """Before the function."""
    tell("prerun", task_id, args, kwargs=kwargs, name=task.name, request=task.request.id)


def on_postrun(task_id, task, args, kwargs, state, **_):
    """After it."""
    tell("postrun", task_id, args, kwargs=kwargs, state=state, name=task.name)


def on_success(sender, result, **_):
    """It returned."""
    tell("success", sender.request.id, sender.request.args, name=sender.name)


def on_failure(sender, task_id, exception, args, kwargs, **_):
    """It raised."""
    tell("failure", task_id, args, kwargs=kwargs, name=sender.name, error=str(exception))


def on_retry(sender, request, reason, einfo, **_):
    """It asked for another run."""
    tell("retry", request.id, request.args, name=sender.name)


def on_received(request, **_):
    """A worker took it."""
    tell("received", request.id, request.args, kwargs=request.kwargs, name=request.name)


def on_revoked(request, terminated, signum, expired, **_):
    """It won't run, or won't go on."""
    tell("revoked", request.id, request.args or (), name=request.task, terminated=terminated,
         expired=expired)  # fmt: skip


@signals.worker_init.connect
def listen(**_):
    """In workers only: the tests import this module as well."""
    for signal, told in (
        (signals.task_prerun, on_prerun), (signals.task_postrun, on_postrun),
        (signals.task_success, on_success), (signals.task_failure, on_failure),
        (signals.task_retry, on_retry), (signals.task_received, on_received),
        (signals.task_revoked, on_revoked),
    ):  # fmt: skip
        signal.connect(told)
