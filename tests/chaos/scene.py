"""The scene of a chaos run: servers, a proxy, workers in two pools, a producer, and what breaks.

Invariants: the state server writes its append-only file before it answers, so that what it has
acknowledged outlives its crash; what is wrong is mended before the run is judged.
"""

import contextlib
import itertools
import os
import random
import time
from collections import Counter
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM, SIGUSR1
from threading import Event as Flag
from threading import Thread
from typing import Self

from tests.chaos.plan import Event
from tests.proxy import Proxy
from tests.servers import Server
from tests.stage import load_app
from tests.stored import without_statistics
from tests.waiting import eventually
from tests.workers import Worker
from vtrr_queue import VTRRError

POOLS = ("prefork", "threads", "prefork", "threads")
SLOTS = 3
PARTITIONS = 50
DEEDS = ("work", "work", "work", "careful", "careful", "fail", "retry", "spawn")
BATCH, PAUSE_SECONDS = 30, 0.4
EARLIER = 20
"""Calls back that an id may come from a second time."""
DURABLE = (
    *("--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"),
    *("--aof-timestamp-enabled", "yes"),
)
HEAL_SECONDS = 90.0

_names = itertools.count(1)


class Scene:
    """One chaos run; a context manager that ends everything.

    Args:
        folder: Where logs and the ledger go.
        seed: Of the producer's choices.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(f"{seed} producer")
        self.ledger = folder / "ledger"
        self.ledger.mkdir()
        self.state, self.broker = Server("valkey", *DURABLE), Server()
        self.acknowledged: dict[str, set[str]] = {"trigger": set(), "direct": set()}
        self.unsure = 0
        self.told_to_end: set[str] = set()
        self.healed_after = 0.0
        self.happened: Counter[str] = Counter()
        self.workers: list[Worker] = []
        self.all_workers: list[Worker] = []
        self._later: list[tuple[float, Worker]] = []
        self._stack = contextlib.ExitStack()
        self._over = Flag()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.state)
        self._stack.enter_context(self.broker)
        self.proxy = self._stack.enter_context(Proxy((self.state.host, self.state.port)))
        self.env = {
            "BROKER_URL": self.broker.url(),
            "STATE_URL": self.proxy.url(),
            "LEDGER": str(self.ledger),
        }
        self.app = load_app("havoc", self.env)
        self._stack.callback(self.app.app.close)
        for at in range(len(POOLS)):
            self.workers.append(self._worker(at))
        for worker in self.workers:
            worker.wait_ready()
        self._producer = Thread(target=self._produce)
        self._producer.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._producer.join()
        for worker in self.all_workers:
            worker.kill_group()
        self._stack.close()

    def perform(self, events: list[Event]) -> None:
        """Let everything happen at its time."""
        begin = time.monotonic()
        for event in events:
            while (left := begin + event.at - time.monotonic()) > 0:
                self._resume(time.monotonic())
                self._over.wait(min(left, 0.1))
            self._resume(time.monotonic())
            getattr(self, "_" + event.kind.replace(" ", "_"))(event)
            self.happened[event.kind] += 1

    def heal(self) -> None:
        """End every fault, then wait until both queues are empty and have left no key."""
        begin = time.monotonic()
        self._over.set()
        self._producer.join()
        self.proxy.heal()
        self._resume(float("inf"))
        for at, worker in enumerate(self.workers):
            if not worker.is_running():
                self.workers[at] = self._worker(at)
        with self.state.client() as client:
            for name in self.app.queues:
                key = f"vtrr:{name}:task"
                eventually(lambda key=key: not client.exists(key), HEAL_SECONDS, f"{name} empty")
            self.healed_after = time.monotonic() - begin
            # Idle workers forget the triggers, time the numbers of the producers' calls.
            limits = ["vtrr:direct:policy", "vtrr:direct:schema"]
            eventually(
                lambda: without_statistics(client.keys("vtrr:*")) == limits,
                HEAL_SECONDS, "no key left",
            )  # fmt: skip

    def _worker(self, at: int) -> Worker:
        log_path = self.folder / f"worker{next(_names)}.log"
        worker = Worker(
            "havoc", log_path=log_path, env=self.env, pool=POOLS[at], concurrency=SLOTS,
            queues=[f"havoc-{name}" for name in ("trigger", "direct")],
        )  # fmt: skip
        worker.start()
        self.all_workers.append(worker)
        return worker

    def _resume(self, now: float) -> None:
        for due, worker in list(self._later):
            if due <= now:
                self._later.remove((due, worker))
                if worker.is_running():
                    worker.signal_group(SIGCONT)

    def _pick(self, event: Event) -> int:
        return int(event.pick * len(POOLS))

    def _replace(self, at: int) -> None:
        self.workers[at] = self._worker(at)

    def _kill_child(self, event: Event) -> None:
        self._to_a_child(event, SIGKILL)

    def _soft_limit(self, event: Event) -> None:
        self._to_a_child(event, SIGUSR1)

    def _to_a_child(self, event: Event, signal: int) -> None:
        children = sorted(pid for worker in self.workers[::2] if " ready." in worker.log()
                          for pid in worker.children())  # fmt: skip
        if children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(children[int(event.pick * len(children))], signal)

    def _kill_worker(self, event: Event) -> None:
        at = self._pick(event)
        if self.workers[at].is_running():
            self.workers[at].signal(SIGKILL)
            self.workers[at].wait()
        self._replace(at)

    def _pause_worker(self, event: Event) -> None:
        worker = self.workers[self._pick(event)]
        if worker.is_running():
            signal_to = worker.signal_group if event.seconds > 1 else worker.signal
            signal_to(SIGSTOP)
            until = time.monotonic() + self.app.LEASE_SECONDS + event.seconds
            self._later.append((until, worker))

    def _warm_shutdown(self, event: Event) -> None:
        self._shut_down(event, SIGTERM)

    def _cold_shutdown(self, event: Event) -> None:
        self._shut_down(event, SIGQUIT)

    def _shut_down(self, event: Event, signal: int) -> None:
        at = self._pick(event)
        if self.workers[at].is_running():
            self.told_to_end.add(self.workers[at].name)
            self.workers[at].signal(signal)
        self._replace(at)

    def _cut_connections(self, _event: Event) -> None:
        with self.state.client() as client:
            for each in client.client_list():
                if each["cmd"] != "client|list":
                    client.client_kill_filter(_id=each["id"])

    def _lose_replies(self, event: Event) -> None:
        self._for_a_while(event, lambda: self.proxy.drop_replies(every=7))

    def _late_replies(self, event: Event) -> None:
        self._for_a_while(event, lambda: self.proxy.stall_replies(1.3, every=25))

    def _for_a_while(self, event: Event, begin: object) -> None:
        begin()
        self._over.wait(event.seconds)
        self.proxy.heal()

    def _crash_state(self, event: Event) -> None:
        self.state.kill()
        self._over.wait(event.seconds / 2)
        self.state.start()

    def _crash_broker(self, event: Event) -> None:
        self.broker.kill()
        self._over.wait(event.seconds)
        self.broker.start()

    def _produce(self) -> None:
        earlier: dict[str, list[str]] = {"trigger": [], "direct": []}
        for number in itertools.count():
            if self._over.wait(PAUSE_SECONDS):
                return
            name = self.chance.choice(("trigger", "direct"))
            calls = [
                {"id": f"{number}-{n}",
                 "args": [self.chance.choice(DEEDS), round(self.chance.expovariate(12), 3)]}
                for n in range(self.chance.choice((1, BATCH, BATCH)))
            ]  # fmt: skip
            if self.chance.random() < 0.2:
                calls.append(calls[0])  # one id twice
            if earlier[name] and self.chance.random() < 0.2:  # it waits, runs, or has ended
                calls.append({**calls[0], "id": self.chance.choice(earlier[name])})
            earlier[name] = [*earlier[name], calls[0]["id"]][-EARLIER:]
            partition = f"p{self.chance.randrange(PARTITIONS)}"
            try:
                self.app.tasks[name].queue(partition, calls)
            except VTRRError:
                self.unsure += len(calls)
            else:
                self.acknowledged[name].update(call["id"] for call in calls)
