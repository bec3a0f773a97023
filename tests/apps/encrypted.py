"""A fair queue whose state and broker are reached by TLS; traces are not."""

import os
import ssl

import redis
from celery import Celery
from traces import Traces

from vtrr_queue import VTRRQueue

TLS_URL, CA = os.environ["TLS_URL"], os.environ["CA"]

app = Celery("encrypted", broker=f"{TLS_URL}/0")
app.conf.broker_use_ssl = {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_ca_certs": CA}
app.conf.broker_connection_retry_on_startup = True
app.conf.task_ignore_result = True
traces = Traces(os.environ["TRACES_URL"])
vtrr = VTRRQueue(
    redis.Redis.from_url(f"{TLS_URL}/1", ssl_ca_certs=CA), app, name="encrypted",
    celery_queue="encrypted", dispatch=os.environ["DISPATCH"],
)  # fmt: skip


@vtrr.task
def act(self):
    """Leave a trace."""
    traces.note(self)
