"""A queue that release 0.2 left behind, after the upgrade; both ways of dispatch."""

import os

import redis
from celery import Celery

from vtrr_queue import VTRRQueue

URL = os.environ["CONVERTED_URL"]

app = Celery("converted", broker=f"{URL}/1")
app.conf.broker_connection_retry_on_startup = False
vtrr = VTRRQueue(
    redis.Redis.from_url(f"{URL}/0"),
    app,
    name="files",
    celery_queue="files",
    dispatch=os.environ["CONVERTED_DISPATCH"],
)


@vtrr.task
def work(self, *args, **kwargs):
    """Note the run."""
    request = self.request
    with redis.Redis.from_url(f"{URL}/2") as notes:
        notes.rpush("runs", f"{request.id} {request.vtrr_partition} {request.vtrr_timeouts}")
