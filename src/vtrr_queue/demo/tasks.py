"""The Celery app of the demo: one function, once as a plain task, once as a fair one."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from celery import Celery

from vtrr_queue import VTRRQueue
from vtrr_queue.demo.server import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtrr_queue import VTRRTask

PLAIN, FAIR = "plain", "fair"
QUEUES = {PLAIN: "plain_demo", FAIR: "vtrr_demo"}
CONCURRENCY = 4
WORK_SECONDS = 0.01
_PUBLISH_SLICE = 25

_recorder = cache(connect)


def work(self: Any, lane: str, tenant: str, number: int, enqueued_at: float) -> None:  # noqa: ANN401
    """Do ten milliseconds of work and note how long the item had to wait for it.

    Args:
        self: The Celery task.
        lane: ``"plain"`` or ``"fair"``.
        tenant: Whose item it is.
        number: Which item of the tenant.
        enqueued_at: Monotonic clock when its tenant came with all its items, s.
    """
    waited = time.monotonic() - enqueued_at
    time.sleep(WORK_SECONDS)
    client = _recorder(self.app.conf.broker_url)
    client.rpush(runs_key(lane), json.dumps([tenant, number, waited]))


def runs_key(lane: str) -> str:
    """Name of the list in which a lane's runs are noted."""
    return f"demo:runs:{lane}"


@dataclass(frozen=True)
class DemoTasks:
    """Both ways to run :func:`work`.

    Attributes:
        app: The Celery app.
        plain: The function as a plain Celery task.
        fair: The function as the task of a fair queue.
    """

    app: Celery
    plain: Any
    fair: VTRRTask

    def enqueue_plain(self, tenant: str, count: int) -> Iterator[None]:
        """Hand items to plain Celery, pausing now and then for the caller's display.

        All wait from now on, as in the other lane: that publishing one by one takes long must
        not make their waiting look shorter.
        """
        now = time.monotonic()
        for number in range(count):
            self.plain.apply_async((PLAIN, tenant, number, now))
            if number % _PUBLISH_SLICE == 0:
                yield

    def enqueue_fair(self, tenant: str, count: int) -> Iterator[None]:
        """Hand items to vtrr-queue, all in one call."""
        now = time.monotonic()
        self.fair.queue(tenant, [{"args": [FAIR, tenant, number, now]} for number in range(count)])
        yield


def build(url: str, dispatch: str) -> DemoTasks:
    """Make the app; the demo and its workers both do so.

    Args:
        url: Server for the broker and for the queue.
        dispatch: ``"trigger"`` or ``"direct"``.
    """
    app = Celery("vtrr_demo", broker=url)
    app.conf.update(
        task_default_queue=QUEUES[PLAIN],
        task_ignore_result=True,
        broker_connection_retry_on_startup=False,
        broker_transport_options={"socket_timeout": 10.0, "socket_connect_timeout": 5.0},
    )
    vtrr = VTRRQueue(
        connect(url),
        app,
        name="demo",
        celery_queue=QUEUES[FAIR],
        max_concurrency=CONCURRENCY,
        dispatch=dispatch,
    )
    plain = app.task(bind=True, name="demo.plain_work")(work)
    return DemoTasks(app, plain, vtrr.task()(work))
