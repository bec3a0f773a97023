"""A task whose retries cannot be stored, whatever is tried."""

import os

import redis
from celery import Celery

from vtrr_queue import VTRRQueue

URL = os.environ["REFUSED_URL"]
RETRIES = {
    "payload": {"args": [{1, 2}]},
    "marker": {"kwargs": {"how": {"__type__": "no-such", "__value__": 1}}},
    "countdown": {"countdown": float("nan")},
}

app = Celery("refused", broker=f"{URL}/0")
app.conf.broker_connection_retry_on_startup = False
vtrr = VTRRQueue(
    redis.Redis.from_url(f"{URL}/1"), app, name="refused", celery_queue="refused", dispatch="direct"
)


@vtrr.task
def again(self, how):
    """Note the run and ask for a retry."""
    with redis.Redis.from_url(f"{URL}/2") as notes:
        notes.rpush(how, self.request.vtrr_timeouts)
    raise self.retry(**RETRIES[how])
