"""Help for tests of apps that use vtrr-queue: an embedded server, runs in-process, a set clock.

A pytest plugin: ``pytest_plugins = ["vtrr_queue.testing"]`` in ``conftest.py``. It needs the extra
``vtrr-queue[testing]``. See docs/testing.md.
"""

from vtrr_queue.celery.inprocess import Run
from vtrr_queue.testing.clock import FakeClock
from vtrr_queue.testing.draining import NeverEmpty, drain
from vtrr_queue.testing.fixtures import (
    _vtrr_bench,
    vtrr_clock,
    vtrr_local,
    vtrr_redis,
    vtrr_server,
)
from vtrr_queue.testing.local import local_queue

__all__ = [
    "FakeClock",
    "NeverEmpty",
    "Run",
    "_vtrr_bench",
    "drain",
    "local_queue",
    "vtrr_clock",
    "vtrr_local",
    "vtrr_redis",
    "vtrr_server",
]
