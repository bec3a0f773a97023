"""A fair queue with bounds on what fails, and items that fail in every way until they are cured."""

import json
import os
import signal
import sys

import redis
from billiard import current_process
from celery import Celery
from kombu import serialization
from traces import Traces

from vtrr_queue import VTRRQueue

STATE = os.environ["STATE_URL"]
MAX_TIMEOUTS = 2

app = Celery("poison", broker=os.environ["BROKER_URL"], backend=f"{STATE}/1")
app.conf.broker_connection_retry_on_startup = True
traces = Traces(f"{STATE}/2")
vtrr = VTRRQueue(
    redis.Redis.from_url(f"{STATE}/0"),
    app,
    name="poison",
    celery_queue="poison",
    dispatch=os.environ["DISPATCH"],
    lease_seconds=600,
    trigger_timeout=2,
    max_timeouts=MAX_TIMEOUTS,
    on_failure="dead",
)


def read_fragile(text):
    """As when a soft limit strikes while the child reads its message."""
    if current_process().name != "MainProcess" and not traces.client.exists("cured"):
        raise ValueError("struck")
    return json.loads(text)


serialization.register("fragile", json.dumps, read_fragile, "application/x-fragile", "utf-8")
app.conf.accept_content = ["json", "fragile"]


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def leave():
    sys.exit(3)


def run_out_of_memory():
    raise MemoryError("too large")


def fail():
    raise ValueError("always")


def generator_exit():
    raise GeneratorExit


DEEDS = {deed.__name__: deed for deed in (die, leave, run_out_of_memory, fail, generator_exit)}


@vtrr.task
def act(self, deed):
    """Fail as told unless cured."""
    traces.note(self, deed)
    if deed in DEEDS and not traces.client.exists("cured"):
        DEEDS[deed]()
    return deed
