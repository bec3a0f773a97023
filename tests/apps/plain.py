"""A Celery app without vtrr-queue: to test the test helpers, and as a control."""

import os
import time

from celery import Celery

app = Celery("plain", broker=os.environ["BROKER_URL"])
app.conf.broker_connection_retry_on_startup = False


@app.task(name="plain.touch")
def touch(path):
    """Leave a trace that the test can see."""
    with open(path, "a") as trace:  # noqa: PTH123
        trace.write("ran\n")


@app.task(name="plain.sleep")
def sleep(seconds):
    """Occupy a slot."""
    time.sleep(seconds)
