"""A fair queue whose items meet every fate, as told by their argument.

Each run, and each hook Celery calls, leaves a line in the file of its item, so that tests see
what happened whatever became of the process.
"""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import redis
from celery import Celery, Task
from celery.exceptions import Ignore, Reject

from vtrr_queue import LeaseLost, VTRRQueue

URL = os.environ["FATES_URL"]
FOLDER = Path(os.environ["FATES_FOLDER"])
PATIENCE_SECONDS = 50

app = Celery("fates", broker=f"{URL}/0", backend=f"{URL}/1", set_as_current=False)
app.conf.broker_connection_retry_on_startup = True
app.conf.worker_send_task_events = False
vtrr = VTRRQueue(
    redis.Redis.from_url(f"{URL}/2"),
    app,
    name="fates",
    celery_queue="fair",
    dispatch=os.environ["FATES_DISPATCH"],
    lease_seconds=float(os.environ["FATES_LEASE_SECONDS"]),
    trigger_timeout=2,
)


def note(file_name, event, **facts):
    """Add a line to the item's file; one write, so that processes can share it."""
    line = json.dumps({"event": event, "pid": os.getpid(), **facts}) + "\n"
    with (FOLDER / file_name).open("a") as file:
        file.write(line)


def notes(item_id):
    """Return the lines of the item's file as mappings."""
    with contextlib.suppress(FileNotFoundError):
        return [json.loads(line) for line in (FOLDER / item_id).read_text().splitlines()]
    return []


def let_go(item_id):
    """End the wait of a `hold`."""
    (FOLDER / f"{item_id}.go").touch()


class Noting(Task):
    """A custom base as error reporters bring it."""

    abstract = True

    def before_start(self, task_id, args, kwargs):
        note(task_id, "before_start")

    def on_success(self, retval, task_id, args, kwargs):
        note(task_id, "on_success")

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        note(task_id, "on_failure", error=type(exc).__name__)

    def on_retry(self, exc, task_id, args, kwargs, einfo):
        note(task_id, "on_retry")

    def after_return(self, status, retval, task_id, args, kwargs, einfo):
        note(task_id, "after_return", status=status)

    def retry(self, *args, **options):
        note(self.request.id, "retry")
        return super().retry(*args, **options)


def hold(task):
    """Run until the test says so, in Python code that any exception interrupts."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (FOLDER / f"{task.request.id}.go").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return "held"


def hold_and_retry(task):
    hold(task)
    raise task.retry(countdown=0)


def hold_and_requeue(task):
    hold(task)
    raise Reject("back with it", requeue=True)


def hold_and_renew(task):
    hold(task)
    try:
        vtrr.engine.renew(task.request.id, task.request.vtrr_token)
    except LeaseLost:
        note(task.request.id, "lease lost")


def fail(task):
    raise ValueError("as told")


def run_out_of_memory(task):
    raise MemoryError("as told")


def interrupt(task):
    raise KeyboardInterrupt


def leave(task):
    sys.exit(3)


def vanish(task):
    os._exit(4)


def die(task):
    os.kill(os.getpid(), signal.SIGKILL)


def retry(task):
    raise task.retry(countdown=0)


def ignore(task):
    raise Ignore


def reject(task):
    raise Reject("bad item", requeue=False)


def requeue(task):
    raise Reject("not now", requeue=True)


def swallow(task):
    """Carry on whatever is raised, as a broad `except` does."""
    with contextlib.suppress(BaseException):
        hold(task)
    time.sleep(PATIENCE_SECONDS)


def work(task):
    time.sleep(0.01)
    return "done"


DEEDS = {
    deed.__name__: deed
    for deed in (
        *(hold, hold_and_retry, hold_and_requeue, hold_and_renew, fail, run_out_of_memory),
        *(interrupt, leave, vanish, die, retry, ignore, reject, requeue, swallow, work),
    )
}


@vtrr.task(base=Noting, max_retries=3)
def act(self, deed):
    """Do the deed in the first run and return in every later one."""
    request = self.request
    first = not any(line["event"] == "run" for line in notes(request.id))
    note(
        request.id,
        "run",
        worker=request.hostname,
        timeouts=request.vtrr_timeouts,
        partition=request.vtrr_partition,
        item_id=request.vtrr_item_id,
        token=request.vtrr_token,
        retries=request.retries,
    )
    return DEEDS[deed](self) if first else "again"
