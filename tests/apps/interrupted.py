"""A fair queue whose items talk to Redis all the time, with a client of their own and with ours."""

import contextlib
import os
import signal
import time

import redis
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded
from traces import Traces

from vtrr_queue import VTRRError, VTRRQueue

STATE = os.environ["STATE_URL"]

app = Celery("interrupted", broker=os.environ["BROKER_URL"])
app.conf.broker_connection_retry_on_startup = True
app.conf.task_ignore_result = True
mine = redis.Redis.from_url(f"{STATE}/0", client_name="mine")
traces = Traces(f"{STATE}/2")
vtrr = VTRRQueue(
    mine, app, name="interrupted", celery_queue="interrupted", dispatch=os.environ["DISPATCH"],
    lease_seconds=60,
)  # fmt: skip


@vtrr.task(max_retries=None)
def act(self, seconds):
    """Use both clients until the time is over; start again after each interruption."""
    hold_back(True)  # outside of a turn nothing would catch it
    traces.note(self)
    until, wrong = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        with contextlib.suppress(SoftTimeLimitExceeded):
            hold_back(False)
            wrong += turn(self)
        hold_back(True)
    with contextlib.suppress(SoftTimeLimitExceeded):
        hold_back(False)
    traces.client.rpush("wrong", wrong)
    if self.request.retries < 2:
        raise self.retry(countdown=0, args=(0.3,))


def hold_back(blocked):
    """Let the soft limit wait, or come."""
    signal.pthread_sigmask(signal.SIG_BLOCK if blocked else signal.SIG_UNBLOCK, {signal.SIGUSR1})


def turn(task):
    """Use the own client, ask for the lease, enqueue one more; how much of that went wrong."""
    key = f"mine:{task.request.id}"
    with contextlib.suppress(redis.RedisError, AttributeError):
        # redis-py may mix up its own replies after an interruption; that is not ours to judge.
        mine.set(key, task.request.id)
        mine.get(key).decode()
    child = f"{task.request.id}/child"
    try:
        held = task.request.vtrr_lease_held()
        ids = note.queue("children", [{"id": child, "args": [child]}])
    except VTRRError:
        return 1
    return (not held) + (ids != [child])


children = VTRRQueue(
    mine, app, name="children", celery_queue="children", dispatch=os.environ["DISPATCH"],
)  # fmt: skip


@children.task
def note(self, item_id):
    """Nobody runs these; the test looks at what is stored."""
