"""A fair queue on a cluster; traces and broker are elsewhere."""

import json
import os
import time

import redis
from celery import Celery
from redis.cluster import ClusterNode
from traces import Traces

from vtrr_queue import VTRRQueue

BROKER = os.environ["BROKER_URL"]
nodes = [ClusterNode(*each) for each in json.loads(os.environ["NODES"])]

app = Celery("clustered", broker=BROKER)
app.conf.broker_connection_retry_on_startup = True
app.conf.task_ignore_result = True
traces = Traces(BROKER.rsplit("/", 1)[0] + "/2")
vtrr = VTRRQueue(
    redis.RedisCluster(startup_nodes=nodes), app, name="clustered", celery_queue="clustered",
    dispatch=os.environ["DISPATCH"], lease_seconds=4, heartbeat=True, trigger_timeout=5,
    socket_timeout=1,
)  # fmt: skip


@vtrr.task
def act(self):
    """Take a moment."""
    traces.note(self)
    time.sleep(0.02)
    traces.note_end(self)
