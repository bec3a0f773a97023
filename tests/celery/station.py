"""The app of tests/apps/fates.py as its tests see it: items, their runs, their end.

Invariant: leases are so long by default that a rerun can't come from an expired one.
"""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import celery

from tests.stage import DISPATCHES, Stage
from tests.waiting import eventually
from tests.workers import Worker
from vtrr_queue.inspector import Inspector
from vtrr_queue.model import DeadLetter

CELERY = tuple(int(number) for number in celery.__version__.split(".")[:2])

ACKED, RELEASED, TIMED_OUT = [0], [0, 0], [0, 1]
"""`vtrr_timeouts` of all runs of an item, by what became of its first lease."""


STATIONS = list(itertools.product(("prefork", "threads", "solo"), DISPATCHES))
"""Every pool in both dispatch modes."""


@contextmanager
def lasting_station(folder: Path, dispatch: str, pool: str) -> Iterator["Station"]:
    """One worker for many tests; none of them may end it or cost it a slot."""
    with Station(folder, dispatch, pool=pool) as opened:
        worker = opened.worker
        yield opened
        assert opened.workers == [worker]
        opened.check_slots()


class Station(Stage):
    """A stage with one queue, and a worker that is started again when a test ended it.

    Args:
        folder: Where the workers' logs go.
        dispatch: "trigger" or "direct".
        pool: Pool of the workers.
        concurrency: Their pool size.
        lease_seconds: Of the queue.
        broker: Broker server, made here by default.
        **options: More settings of the queue.
    """

    def __init__(
        self, folder, dispatch, *, pool="prefork", concurrency=2, lease_seconds=600.0, broker=None,
        **options,
    ) -> None:  # fmt: skip
        super().__init__(
            "fates", folder, dispatch=dispatch, broker=broker, LEASE_SECONDS=lease_seconds,
            QUEUE_OPTIONS=options,
        )  # fmt: skip
        self.pool = pool
        self.concurrency = 1 if pool == "solo" else concurrency
        self.vtrr = self.app.vtrr
        self.inspector = Inspector(self.vtrr.engine)
        self.holding: list[str] = []
        self.ids = itertools.count(1)

    def one_more_worker(self, *args: str, ready: bool = True) -> Worker:
        """Start a worker, whether there is another or not; with more arguments if need be."""
        return self.start_worker(
            queues=["fates", "celery"], pool=self.pool, concurrency=self.concurrency, args=args,
            ready=ready,
        )  # fmt: skip

    @property
    def worker(self) -> Worker:
        """The worker that runs; a new one when a test ended the last."""
        if not (self.workers and self.workers[-1].is_running()):
            self.one_more_worker()
        return self.workers[-1]

    def tidy(self) -> None:
        """After a test: end what still holds, show the latest logs."""
        self.let_go(*self.holding)
        self.holding.clear()
        print(*(worker.tail() for worker in self.workers[-2:]), sep="\n")

    def queue(self, deed: str, *, then: str = "end", **options: Any) -> str:
        """Enqueue one item, with a deed for reruns and Celery options; returns its id."""
        item_id = f"{deed}-{next(self.ids)}"
        self.holding.append(item_id)
        self.app.act.apply_async((deed, then), task_id=item_id, partition_key="p", **options)
        return item_id

    def queue_many(self, deed: str, count: int) -> list[str]:
        """Enqueue many items of a few partitions; returns their ids."""
        item_ids = [f"{deed}-{next(self.ids)}" for _ in range(count)]
        for at in range(4):
            entries = [{"id": item_id, "args": [deed]} for item_id in item_ids[at::4]]
            self.app.act.queue(f"p{at}", entries)
        return item_ids

    def running(self, deed: str, **options: Any) -> str:
        """Enqueue one item and wait until it runs; returns its id."""
        item_id = self.queue(deed, **options)
        self.wait_runs_of(item_id, 1)
        return item_id

    def let_go(self, *item_ids: str) -> None:
        """End what `hold` and `hold_again` wait for."""
        for item_id in item_ids:
            self.traces.open(item_id)
            self.traces.open(f"again {item_id}")

    def let_pass(self, seconds: float) -> None:
        """Let time pass in which something must not happen."""
        time.sleep(seconds)

    def events(self, item_id: str) -> list[str]:
        """Return the hooks and runs of an item in their order."""
        return self.traces.client.lrange(f"events:{item_id}", 0, -1)

    def wait_events(self, item_id: str, events: list[str]) -> None:
        """Wait until exactly that has happened to an item."""
        eventually(lambda: len(self.events(item_id)) >= len(events), 15, f"the end of {item_id}")
        assert self.events(item_id) == events

    def state_of(self, item_id: str) -> str:
        """Return the state of the item's result."""
        return self.app.app.AsyncResult(item_id).state

    def wait_state(self, item_id: str, state: str) -> None:
        """Wait for a state of the item's result."""
        eventually(lambda: self.state_of(item_id) == state, 15, f"{state} of {item_id}")

    def wait_runs_of(self, item_id: str, count: int) -> list[dict[str, Any]]:
        """Wait until an item has run so many times, and return its runs."""
        eventually(lambda: len(self.traces.runs(item_id)) >= count, 20, f"run {count} of {item_id}")
        return self.traces.runs(item_id)

    def timeouts(self, item_id: str, runs: int) -> list[int]:
        """Wait for so many runs and for an empty queue; return `vtrr_timeouts` of every run."""
        self.wait_runs_of(item_id, runs)
        self.wait_empty()
        return [run["timeouts"] for run in self.traces.runs(item_id)]

    def wait_empty(self) -> None:
        """Wait until nothing waits, runs or is delayed; then what is stored must be right."""
        self.wait_rest("fates")
        assert self.inspector.audit() == []

    def dead_letter(self, item_id: str) -> DeadLetter:
        """Wait for an item's dead letter."""

        def find() -> DeadLetter | None:
            letters = self.inspector.dead_letters()
            return next((letter for letter in letters if letter.item_id == item_id), None)

        return eventually(find, 15, f"the dead letter {item_id}")

    def check_slots(self) -> None:
        """The worker still uses every slot it has."""
        holds = [self.queue("hold") for _ in range(self.concurrency)]
        for item_id in holds:
            self.wait_runs_of(item_id, 1)
        self.let_go(*holds)
        self.wait_empty()
