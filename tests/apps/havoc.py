"""Two fair queues for the chaos run; each run of an item leaves a file of its own.

Invariants: the file is begun before anything else happens and ended last, both in one write with
the soft limit held back; it is not on the server whose faults are tested.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

import redis
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

from vtrr_queue import VTRRError, VTRRQueue

LEDGER = Path(os.environ["LEDGER"])
LEASE_SECONDS = 3.0

app = Celery("havoc", broker=os.environ["BROKER_URL"])
app.conf.broker_connection_retry_on_startup = True
app.conf.task_ignore_result = True
app.conf.worker_cancel_long_running_tasks_on_connection_loss = False

LIMITS = {"trigger": {}, "direct": {"default_cap": 1, "max_in_flight": 8, "charge": "runtime"}}
"""Settings of the two queues; one of them uses nothing optional."""


def make(dispatch):
    """A queue of one way of dispatch, with a short lease and a heartbeat."""
    return VTRRQueue(
        redis.Redis.from_url(os.environ["STATE_URL"]), app, name=dispatch,
        celery_queue=f"havoc-{dispatch}", dispatch=dispatch, lease_seconds=LEASE_SECONDS,
        heartbeat=True, trigger_timeout=5, socket_timeout=1, **LIMITS[dispatch],
    )  # fmt: skip


@contextlib.contextmanager
def unlimited():
    """Hold back the soft limit."""
    if hasattr(signal, "pthread_sigmask"):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def note(request, word):
    """Write one line to the file of this run."""
    line = f"{word} {time.time():.6f} {os.getpid()} {request.vtrr_timeouts} {request.retries}\n"
    with unlimited():
        path = LEDGER / f"{request.vtrr_item_id}.{request.vtrr_token}"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, line.encode())
        os.close(file)


def run(task, deed, seconds):
    """Do as told; leave a word at the begin and at the end."""
    note(task.request, "begin")
    try:
        if deed == "careful":
            with contextlib.suppress(SoftTimeLimitExceeded):
                time.sleep(seconds)
        else:
            time.sleep(seconds)
        if deed == "retry" and task.request.retries < 1:
            raise task.retry(countdown=0.1)
        if deed == "spawn":  # in many partitions: under a cap of 1 each drains one by one
            parent = task.request.id
            with contextlib.suppress(VTRRError):
                task.apply_async(
                    ("work", seconds),
                    task_id=f"{parent}+",
                    partition_key=f"spawned {parent[-1]}",
                )
        if deed == "fail":
            raise ValueError("as told")
    finally:
        note(task.request, "end")


queues = {dispatch: make(dispatch) for dispatch in ("trigger", "direct")}


@queues["trigger"].task(max_retries=5)
def by_trigger(self, deed, seconds):
    """An item of the queue with triggers."""
    run(self, deed, seconds)


@queues["direct"].task(max_retries=5)
def pulled(self, deed, seconds):
    """An item of the queue with direct dispatch."""
    run(self, deed, seconds)


tasks = {"trigger": by_trigger, "direct": pulled}
