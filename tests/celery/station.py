"""The app of tests/apps/fates.py with its server and its workers, seen from a test."""

import contextlib
import importlib.util
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

from tests.servers import Server
from tests.waiting import eventually
from tests.workers import APPS, Worker

from vtrr_queue.inspector import Inspector

QUEUES = ("fair", "celery")


def load_app(name: str, env: dict[str, str]) -> ModuleType:
    """Load a module of tests/apps anew, as a producer; workers load it by themselves."""
    spec = importlib.util.spec_from_file_location(name, APPS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with patch.dict(os.environ, env):
        spec.loader.exec_module(module)
    return module


class Station:
    """A private server, the app on it, and workers that start when they are asked for.

    Args:
        folder: Gets the notes of runs and the logs of workers.
        dispatch: "trigger" or "direct".
        pool: Pool of the workers.
        concurrency: Their pool size.
        lease_seconds: Long by default, so that a rerun can't come from an expired lease.
    """

    def __init__(
        self,
        server: Server,
        folder: Path,
        dispatch: str,
        *,
        pool: str = "prefork",
        concurrency: int = 2,
        lease_seconds: float = 600,
    ) -> None:
        self.pool, self.concurrency, self.folder = pool, concurrency, folder
        (folder / "notes").mkdir()
        self.env = {
            "FATES_URL": server.url().rsplit("/", 1)[0],
            "FATES_FOLDER": str(folder / "notes"),
            "FATES_DISPATCH": dispatch,
            "FATES_LEASE_SECONDS": str(lease_seconds),
        }
        self.module = load_app("fates", self.env)
        self.app, self.vtrr, self.act = self.module.app, self.module.vtrr, self.module.act
        self.inspector = Inspector(self.vtrr.engine)
        self._numbers = itertools.count(1)
        self._ids = itertools.count(1)
        self.workers: list[Worker] = []

    def start_worker(self) -> Worker:
        """Start one more worker, without waiting until it is ready."""
        log_path = self.folder / f"worker{next(self._numbers)}.log"
        worker = Worker("fates", queues=QUEUES, env=self.env, pool=self.pool,
                        concurrency=self.concurrency, log_path=log_path)  # fmt: skip
        self.workers.append(worker)
        worker.start()
        return worker

    @property
    def worker(self) -> Worker:
        """The running worker; a new one when a test ended it."""
        if not (self.workers and self.workers[-1].is_running()):
            self.start_worker()
        self.workers[-1].wait_ready()
        return self.workers[-1]

    def close(self) -> None:
        """Kill the workers and close the producer's connections."""
        for worker in self.workers:
            worker.kill_group()
        self.app.close()
        self.vtrr.engine.client.close()

    def queue(self, deed: str, **limits: float) -> str:
        """Enqueue one item, with limits of its own; returns its id."""
        item_id = f"{deed}-{next(self._ids)}"
        self.act.apply_async((deed,), task_id=item_id, partition_key="p", **limits)
        return item_id

    def runs(self, item_id: str) -> list[dict]:
        """Return what each run of an item wrote, oldest first."""
        return [line for line in self.module.notes(item_id) if line["event"] == "run"]

    def events(self, item_id: str) -> list[str]:
        """Return the names of everything that happened to an item, oldest first."""
        return [line["event"] for line in self.module.notes(item_id)]

    def running(self, deed: str, **limits: float) -> str:
        """Enqueue one item and wait until it runs."""
        item_id = self.queue(deed, **limits)
        eventually(lambda: self.runs(item_id), 15, f"a run of {item_id}")
        return item_id

    def timeouts(self, item_id: str, runs: int, timeout: float = 20) -> list[int]:
        """Wait for so many runs and for the queue's rest; return vtrr_timeouts of each run."""
        eventually(lambda: len(self.runs(item_id)) >= runs, timeout, f"{runs} runs of {item_id}")
        self.wait_empty()
        return [run["timeouts"] for run in self.runs(item_id)]

    def wait_empty(self, timeout: float = 20) -> None:
        """Wait until nothing waits, runs or is delayed, then check what is stored."""

        def resting() -> bool:
            depth = self.inspector.depth()
            return (depth.waiting, depth.running, depth.delayed) == (0, 0, 0)

        eventually(resting, timeout, "an empty queue")
        assert self.inspector.audit() == []

    def state(self, item_id: str) -> str:
        """Return the item's state in the result backend."""
        return self.app.AsyncResult(item_id).state


@contextlib.contextmanager
def station(folder: Path, dispatch: str, **options: object) -> Iterator[Station]:
    """Open a station on a private server and show the end of the logs when a test fails."""
    with Server() as server:
        opened = Station(server, folder, dispatch, **options)
        try:
            yield opened
        finally:
            opened.close()
