"""A fair queue whose items do what they are told, to themselves and to their process."""

import contextlib
import json
import os
import signal
import sys
import time

import redis
from celery import Celery, Task
from celery.exceptions import Ignore, Reject
from impatience import ImpatientAMQP
from traces import Traces

from vtrr_queue import LeaseLost, VTRRQueue

STATE = os.environ["STATE_URL"]
LEASE_SECONDS = float(os.environ["LEASE_SECONDS"])

app = Celery("fates", broker=os.environ["BROKER_URL"], backend=f"{STATE}/1", amqp=ImpatientAMQP)
app.conf.broker_connection_retry_on_startup = True
traces = Traces(f"{STATE}/2")
vtrr = VTRRQueue(
    redis.Redis.from_url(f"{STATE}/0"),
    app,
    name="fates",
    celery_queue="fates",
    dispatch=os.environ["DISPATCH"],
    lease_seconds=LEASE_SECONDS,
    trigger_timeout=2,
    **json.loads(os.environ.get("QUEUE_OPTIONS", "{}")),
)


def tell(item_id, event):
    """Leave a word about an item for the test to see."""
    traces.client.rpush(f"events:{item_id}", event)


class Reporting(Task):
    """A custom base as error reporters bring it."""

    abstract = True

    def before_start(self, task_id, *_):
        tell(task_id, "before_start")

    def on_success(self, _result, task_id, *_):
        tell(task_id, "on_success")

    def on_failure(self, exc, task_id, *_):
        tell(task_id, f"on_failure {type(exc).__name__}")

    def on_retry(self, _exc, task_id, *_):
        tell(task_id, "on_retry")

    def after_return(self, status, _result, task_id, *_):
        tell(task_id, f"after_return {status}")

    def retry(self, *args, **options):
        tell(self.request.id, "retry")
        return super().retry(*args, **options)


def work(task):
    """Take a moment."""
    time.sleep(0.01)
    return "done"


def hold(task):
    """Run until the test opens the item's gate."""
    traces.wait_at(task.request.id)
    return "held"


def end(task):
    """Return at once."""
    return "again"


def hold_again(task):
    """Run a second time, for longer than the lease, until the test opens another gate."""
    vtrr.engine.renew(task.request.id, task.request.vtrr_token, 60)
    traces.wait_at(f"again {task.request.id}")
    return "again"


def linger(task):
    """Run for ten leases."""
    time.sleep(10 * LEASE_SECONDS)
    traces.note_end(task)


def retry_and_hold(task):
    """Ask for a retry and go on."""
    task.retry(countdown=0, throw=False)
    hold_and_tell(task)
    tell(task.request.id, "went on")


def hold_and_ask(task):
    """Ask before and after the gate whether the lease is held."""
    tell(task.request.id, f"held {task.request.vtrr_lease_held()}")
    traces.wait_at(task.request.id)
    tell(task.request.id, f"held {task.request.vtrr_lease_held()}")


def hold_and_tell(task):
    """Tell what ends the waiting."""
    try:
        hold(task)
    except BaseException as exc:
        tell(task.request.id, f"stopped by {type(exc).__name__}")
        raise


def swallow(task):
    """Go on whatever is raised, as a broad `except` does."""
    with contextlib.suppress(BaseException):
        time.sleep(30)
    time.sleep(30)


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


def hold_and_retry(task):
    hold(task)
    retry(task)


def hold_and_requeue(task):
    hold(task)
    requeue(task)


def hold_and_renew(task):
    hold(task)
    try:
        vtrr.engine.renew(task.request.id, task.request.vtrr_token)
    except LeaseLost:
        tell(task.request.id, "lease lost")


DEEDS = {
    deed.__name__: deed
    for deed in (
        work, hold, end, hold_again, swallow, fail, run_out_of_memory, interrupt, leave, vanish,
        die, retry, ignore, reject, requeue, hold_and_retry, hold_and_requeue, hold_and_renew,
        linger, retry_and_hold, hold_and_ask, hold_and_tell,
    )
}  # fmt: skip


@vtrr.task(base=Reporting, max_retries=3)
def act(self, deed, then="end"):
    """Do one deed in the first run and another in every later one."""
    item_id = self.request.id
    first = traces.client.incr(f"runs:{item_id}") == 1
    tell(item_id, "run")
    traces.note(self, deed)  # last: who sees the run may end it at once
    return DEEDS[deed if first else then](self)
