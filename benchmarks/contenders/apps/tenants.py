"""A flooding tenant and a small one, on plain Celery or on vtrr-queue.

Each item of the flood appends a byte to the trace; each of the small tenant appends the time it
waited, in seconds, to a file beside it. Monotonic clocks of one machine agree.
"""

from __future__ import annotations

import os
import time

import redis
from celery import Celery

from vtrr_queue import VTRRQueue

SECONDS = float(os.environ["BENCH_SECONDS"])
PAUSE_SECONDS = 0.1

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_RUNS = os.open(os.environ["BENCH_TRACE"], _APPEND)
_WAITS = os.open(os.environ["BENCH_TRACE"] + ".waits", _APPEND)
_DISPATCH, _, _CAP = os.environ["BENCH_VARIANT"].partition(" ")
_URL = os.environ["BENCH_URL"]

app = Celery("tenants", broker=_URL)
app.conf.update(
    task_default_queue="tenants",
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)


def work(_self: object, tenant: str, enqueued_at: float) -> None:
    """An item of either tenant."""
    waited = time.monotonic() - enqueued_at
    time.sleep(SECONDS)
    if tenant == "flood":
        os.write(_RUNS, b".")
    else:
        os.write(_WAITS, f"{waited:.6f}\n".encode())


plain = app.task(bind=True, name="tenants.plain")(work)
vtrr = VTRRQueue(
    redis.Redis.from_url(_URL), app, name="tenants", celery_queue="tenants", max_concurrency=8,
    dispatch="trigger" if _DISPATCH == "trigger" else "direct",
)  # fmt: skip
fair = vtrr.task(work)


def flood(count: int) -> None:
    """Enqueue the flood; with a cap, so that a slot stays free for others."""
    if _CAP:
        vtrr.set_partition("flood", cap=int(_CAP))
    now = time.monotonic()
    if _DISPATCH == "plain":
        with app.producer_or_acquire() as producer:
            for _ in range(count):
                plain.apply_async(("flood", now), producer=producer)
    else:
        fair.queue("flood", [{"args": ["flood", now]} for _ in range(count)])


def trickle(count: int) -> None:
    """Enqueue items of the small tenant, one every tenth of a second."""
    due = time.monotonic()
    for _ in range(count):
        time.sleep(max(0.0, due - time.monotonic()))
        now = time.monotonic()
        if _DISPATCH == "plain":
            plain.apply_async(("small", now))
        else:
            fair.queue("small", [{"args": ["small", now]}])
        due += PAUSE_SECONDS
