"""An app of tests/apps from both sides: this process enqueues, real workers run the items.

Invariants: the broker and the state of the queues are servers of their own; what runs did is read
from Redis (`tests/apps/traces.py`), not from logs.
"""

import importlib.util
import itertools
import json
from contextlib import ExitStack
from types import ModuleType
from typing import Any, Self

import pytest

from tests.servers import Server
from tests.waiting import eventually
from tests.workers import APPS, Worker
from vtrr_queue.inspector import Inspector

DISPATCHES = ("trigger", "direct")

_names = itertools.count(1)


def load_app(module: str, env: dict[str, str]) -> ModuleType:
    """Import an app of tests/apps as if for the first time, under the name its workers know.

    Args:
        module: File name without ".py".
        env: Environment variables it reads.
    """
    spec = importlib.util.spec_from_file_location(module, APPS / f"{module}.py")
    assert spec, f"no app {module!r}"
    assert spec.loader, f"no app {module!r}"
    loaded = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(APPS)
        for name, value in env.items():
            patch.setenv(name, value)
        spec.loader.exec_module(loaded)
    return loaded


class Stage:
    """Servers, an app and its workers; a context manager that ends them all.

    Args:
        module: App of tests/apps.
        folder: Where the workers' logs go.
        dispatch: "trigger" or "direct".
        broker_url: Address the app takes for its broker; the broker server's own by default.
        broker: Broker server, made here by default.
        state: Server of the queues, the results and the traces, made here by default.
        env: More environment variables of the app; what is no string becomes JSON.
    """

    def __init__(self, module, folder, *, dispatch, broker=None, broker_url="", state=None,
                 **env: Any):  # fmt: skip
        self.module, self.folder = module, folder
        self._stack = ExitStack()
        self.state = state or self._stack.enter_context(Server())
        self.broker = broker or self._stack.enter_context(Server())
        self.env = {
            "BROKER_URL": broker_url or self.broker.url(),
            "STATE_URL": self.state.url().rsplit("/", 1)[0],
            "DISPATCH": dispatch,
            **{key: value if isinstance(value, str) else json.dumps(value)
               for key, value in env.items()},
        }  # fmt: skip
        self.app = load_app(module, self.env)
        self.traces = self.app.traces
        self.redis = self._stack.enter_context(self.state.client(decode_responses=True))
        self.workers: list[Worker] = []
        self.lasting: tuple[str, ...] = ()
        """Queues that must be at rest after each test, where workers go on to the next one."""
        self._stack.callback(self.app.app.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for worker in self.workers:
            worker.kill_group()
            print(worker.tail())
        # Results that a failed test still holds outlive the server they would ask.
        self.app.app.backend.remove_pending_result = lambda result: result
        self._stack.close()

    def start_worker(self, *, ready=True, **options: Any) -> Worker:
        """Start one more worker of the app and wait until it is ready, unless told not to."""
        log_path = self.folder / f"{self.module}{next(_names)}.log"
        worker = Worker(self.module, log_path=log_path, env=self.env, **options)
        self.workers.append(worker)
        worker.start()
        if ready:
            worker.wait_ready()
        return worker

    def end_worker(self, worker: Worker) -> None:
        """Kill a worker that is no longer needed."""
        worker.kill_group()
        self.workers.remove(worker)

    def clear(self) -> None:
        """Forget runs, gates, items and triggers of earlier tests; workers stay."""
        self.redis.flushall()
        with self.broker.client() as broker:
            broker.flushall()

    def script_calls(self) -> int:
        """How many scripts the state server has run so far."""
        stats = self.redis.info("commandstats")
        names = ("cmdstat_evalsha", "cmdstat_eval")
        return sum(stats[name]["calls"] for name in names if name in stats)

    def inflight(self, name: str) -> int:
        """How many leases of a queue are held."""
        return int(self.redis.zcard(f"vtrr:{name}:inflight"))

    def wait_runs(self, count: int, timeout: float = 20.0) -> list[dict[str, Any]]:
        """Wait until so many runs have started, and return them."""
        eventually(lambda: self.traces.count() >= count, timeout, f"{count} runs")
        return self.traces.runs()

    def wait_rest(self, name: str, timeout: float = 20.0) -> None:
        """Wait until nothing of a queue waits, runs or is delayed; then its keys must be right."""
        eventually(lambda: not self.redis.exists(f"vtrr:{name}:task"), timeout, "the queue's rest")
        vtrr = self.app.app.vtrr_queues[name]
        assert Inspector(vtrr.engine).audit() == []
