"""What the demo's workers load: ``celery -A vtrr_queue.demo.app worker``.

Invariant: it has no default address. Without the demo that started the server it refuses.
"""

from __future__ import annotations

import os

from celery.signals import worker_ready

from vtrr_queue.demo.server import connect
from vtrr_queue.demo.tasks import build
from vtrr_queue.demo.workers import DISPATCH_VARIABLE, READY_KEY, URL_VARIABLE


def _announce(sender: object, **_: object) -> None:
    """Tell the demo that this worker takes items from now on."""
    with connect(_URL) as client:
        client.sadd(READY_KEY, str(getattr(sender, "hostname", "")))


if URL_VARIABLE not in os.environ:
    raise SystemExit("vtrr_queue.demo.app is for workers that 'python -m vtrr_queue.demo' starts")

_URL = os.environ[URL_VARIABLE]
app = build(_URL, os.environ[DISPATCH_VARIABLE]).app
worker_ready.connect(_announce, weak=False)
