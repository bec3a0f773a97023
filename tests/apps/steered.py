"""Two fair queues for people who steer: items wait at a gate, fail, or end at once."""

import os

import redis
from celery import Celery
from traces import Traces

from vtrr_queue import VTRRQueue

STATE = os.environ["STATE_URL"]

app = Celery("steered", broker=os.environ["BROKER_URL"])
app.conf.broker_connection_retry_on_startup = True
app.conf.worker_prefetch_multiplier = 1
app.conf.task_ignore_result = True
traces = Traces(f"{STATE}/2")


def make(name):
    """One queue of the app."""
    client = redis.Redis.from_url(f"{STATE}/0")
    return VTRRQueue(
        client, app, name=name, celery_queue=name, dispatch=os.environ["DISPATCH"],
        on_failure="dead",
    )  # fmt: skip


files, mails = make("files"), make("mails")


@files.task
def act(self, what="end"):
    """Wait at the gate, fail, or end."""
    traces.note(self, what)
    if what == "wait":
        traces.wait_at("open")
    if what == "fail":
        message = f"no {self.request.vtrr_partition}"
        raise ValueError(message)


@mails.task
def send(self):
    """End at once."""
    traces.note(self)
