"""Runs the Celery workers of the demo, one for each lane, as real processes."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vtrr_queue.demo.children import end, spawn, wait_until
from vtrr_queue.demo.outcome import DemoFailed
from vtrr_queue.demo.server import connect
from vtrr_queue.demo.tasks import CONCURRENCY, QUEUES

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

URL_VARIABLE, DISPATCH_VARIABLE = "VTRR_DEMO_URL", "VTRR_DEMO_DISPATCH"
READY_KEY = "demo:ready"
START_SECONDS, GRACE_SECONDS = 45.0, 10.0


class Workers:
    """The running workers.

    Args:
        processes: Lane -> worker process.
    """

    def __init__(self, processes: dict[str, subprocess.Popen[bytes]]) -> None:
        self._processes = processes

    def check(self) -> None:
        """Go on only while every worker runs.

        Raises:
            DemoFailed: One ended.
        """
        for lane, process in self._processes.items():
            code = process.poll()
            if code is not None:
                raise DemoFailed(f"the {lane} worker ended with exit code {code}")

    def end(self, grace_seconds: float = 0.0) -> None:
        """End the workers; within the time of grace what runs may finish."""
        end(list(self._processes.values()), grace_seconds)
        self._processes.clear()


@contextmanager
def running_workers(
    folder: Path,
    url: str,
    dispatch: str,
    check: Callable[[], None],
) -> Iterator[Workers]:
    """Start a worker for each lane at once and wait until all take items.

    Args:
        folder: Where their logs go.
        url: Server of the demo.
        dispatch: How the fair lane hands out items.
        check: Called while waiting; it raises to give up.

    Yields:
        The workers.

    Raises:
        DemoFailed: One did not start.
    """
    environment = {
        **os.environ,
        URL_VARIABLE: url,
        DISPATCH_VARIABLE: dispatch,
        "TMPDIR": str(folder),  # billiard's folders go with ours when a worker is killed
    }
    processes: dict[str, subprocess.Popen[bytes]] = {}
    workers = Workers(processes)
    try:
        for lane, queue in QUEUES.items():
            log = folder / f"{lane}-worker.log"
            processes[lane] = spawn(_command(lane, queue), log, environment)
        _await_ready(workers, url, check)
        yield workers
    finally:
        workers.end()


def forget_celery_settings() -> None:
    """Drop ``CELERY_*`` from the environment.

    ``CELERY_BROKER_URL`` and its kin win over an app's own configuration, so with them the
    demo would work on a server that it did not start.
    """
    for name in [name for name in os.environ if name.startswith("CELERY_")]:
        del os.environ[name]


def _await_ready(workers: Workers, url: str, check: Callable[[], None]) -> None:
    with connect(url) as client:

        def all_ready() -> bool:
            check()
            workers.check()
            return bool(client.scard(READY_KEY) == len(QUEUES))

        if not wait_until(all_ready, START_SECONDS):
            raise DemoFailed(f"the workers were not ready after {START_SECONDS:g} s")


def _command(lane: str, queue: str) -> list[str]:
    return [
        *(sys.executable, "-m", "celery", "--quiet", "--app", "vtrr_queue.demo.app", "worker"),
        *("--pool", "prefork", "--concurrency", str(CONCURRENCY), "--queues", queue),
        *("--hostname", f"{lane}@demo", "--loglevel", "WARNING"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
    ]
