"""Feeds a Celery worker: leases items when a pool slot is free and hands them to Celery.

Runs in the worker's main process. What is held lives with the worker, not with the consumer,
because Celery stops and starts every consumer step when the broker connection drops while the
pool goes on running (docs/design/0005-feeding-celery.md).

Invariants: no more items run than the pool has slots; nothing is leased while the worker
shuts down; when the worker really ends, everything held is released.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

from celery import bootsteps, signals
from celery.utils.log import get_logger
from celery.worker import state

from vtrr_queue.celery.ahead import SETTLE_SECONDS
from vtrr_queue.celery.feed import Feed
from vtrr_queue.celery.keeper import Keeper
from vtrr_queue.celery.outage import drain_often, keep_jobs, let_close, pool_size
from vtrr_queue.celery.request import ItemRequest, shutting_down
from vtrr_queue.celery.revoking import listen

if TYPE_CHECKING:
    from vtrr_queue.celery.queue import VTRRQueue

logger = get_logger(__name__)

PROCESS_CHECK_SECONDS = 1.0
"""Pause between two looks for dead pool processes, s. Celery looks when one exits, often too early
to see it, and then every 5 s; until then the pool may hand items to the dead one."""


class Feeder:
    """All queues of one worker process.

    Args:
        controller: Celery's WorkController.
        consumer: Its consumer.
    """

    def __init__(self, controller: Any, consumer: Any) -> None:
        self.controller, self.consumer = controller, consumer
        self.app, self.hostname = consumer.app, consumer.hostname
        self._feeds: dict[str, Feed] = {}
        self._ticking = threading.RLock()
        self._depth = 0
        self._again = False
        self._running = False
        self._signal_read, self._signal_write = os.pipe()
        os.set_blocking(self._signal_read, False)
        os.set_blocking(self._signal_write, False)
        self._process_check: Any = None
        self._loop_thread = 0
        self._asked = self._settling = False
        self.keeper = Keeper(self)
        keep_jobs(consumer.pool)

    @property
    def feeds(self) -> list[Feed]:
        """One feed for each queue of the app; queues made later join in."""
        queues: dict[str, VTRRQueue] = self.app.__dict__.get("vtrr_queues", {})
        for name, vtrr in list(queues.items()):
            if name not in self._feeds or self._feeds[name].vtrr is not vtrr:
                self._feeds[name] = Feed(vtrr, self)
        return list(self._feeds.values())

    def feed(self, name: str) -> Feed:
        """The feed of one queue, by the queue's name."""
        return next(feed for feed in self.feeds if feed.vtrr.name == name)

    def accepting(self) -> bool:
        """Whether items may be leased: the event loop runs and the worker is to go on."""
        running = self.consumer.blueprint.state == bootsteps.RUN
        return self._running and running and not shutting_down()

    @property
    def slots(self) -> int:
        """Slots of the pool.

        An autoscaled pool has as many as it may grow to: it grows when it is given work.
        """
        scaler = getattr(self.controller, "autoscaler", None)
        return int(scaler.max_concurrency if scaler else pool_size(self.consumer.pool))

    def free_slots(self) -> int:
        """Pool slots that neither an item nor a running plain task uses."""
        used = sum(feed.slots_used for feed in tuple(self._feeds.values()))
        return self.slots - plain_tasks() - used

    def settle_soon(self) -> bool:
        """Have what has ended settled shortly, together with what ends until then.

        Returns:
            False where Celery has no event loop: do it now.
        """
        hub = self.consumer.hub
        if hub is None:
            return False
        if not self._settling:
            self._settling = True
            hub.call_later(SETTLE_SECONDS, self._settle)
        return True

    def could_lease(self) -> bool:
        """Whether a slot and work may have met without anybody telling.

        As when the pool has grown, or the worker has begun to consume a queue.
        """
        wanted = self.accepting() and any(feed.wanting for feed in self.feeds)
        asked = any(feed.supply.unanswered for feed in self.feeds)  # their slots are taken already
        return wanted and (asked or self.free_slots() > 0)

    @property
    def blocked(self) -> bool:
        """Whether a queue waits for a slot that a plain task uses."""
        waits = any(feed.wanting for feed in self.feeds) and self.accepting()
        return waits and plain_tasks() > 0 >= self.free_slots()

    def wake(self) -> None:
        """Ask for a tick from any thread."""
        is_loop = threading.get_ident() == self._loop_thread
        if self.consumer.hub is not None and is_loop and not self._depth:
            if not self._asked:  # the loop runs it before it waits again, what just ended included
                self._asked = True
                self.consumer.hub.call_soon(self.tick)
        elif self.consumer.hub is not None:
            self.go_round()
        elif type(self.consumer.pool).__module__.endswith("solo"):
            self.consumer.call_soon(self.tick)
        else:
            self.keeper.ask_tick()

    def go_round(self) -> None:
        """Keep the event loop, if any, from waiting before it goes round once more.

        A call that is asked of it inside of such a call, as the acknowledgement of a message is
        asked of it in a tick, would otherwise wait with it, for up to a second.
        """
        if self.consumer.hub is not None:
            with contextlib.suppress(BlockingIOError):
                os.write(self._signal_write, b"x")

    def tick(self) -> None:
        """Settle what ended and lease what fits; runs where Celery wants its calls.

        A run of the solo pool ends inside this call: it only asks for another round.
        """
        self._asked = False
        with self._ticking:
            self._again = True
            if self._depth:
                return
            self._depth += 1
            try:
                while self._again:
                    self._again = False
                    self._round()
                self._notice_blocked()
            finally:
                self._depth -= 1

    def flush(self, feed: Feed) -> None:
        """Settle what ended from another thread, unless a tick is under way."""
        if self._ticking.acquire(blocking=False):
            try:
                feed.flush()
            finally:
                self._ticking.release()

    def start(self) -> None:
        """The consumer is up: for the first time, or again after a broker outage."""
        self._running = True
        let_close(self.consumer.connection)
        if self.consumer.hub is None:
            drain_often(self.consumer.connection, self._holds_triggers)
        for feed in self.feeds:
            feed.consumer_started(again=self.consumer.restart_count > 0)
        self.keeper.start()
        if self.consumer.hub is None:
            self.wake()

    def register_with_event_loop(self, hub: Any) -> None:
        """Watch the wake-up pipe and the pool; Celery calls this at each start of its loop."""
        self._loop_thread = 0  # the first round comes after kombu has begun to listen
        self._asked = self._settling = False
        hub.add_reader(self._signal_read, self._on_signal)
        if self._process_check is not None:
            self._process_check.cancel()
        maintain = self.consumer.pool.maintain_pool
        self._process_check = hub.call_repeatedly(PROCESS_CHECK_SECONDS, maintain)
        self.wake()

    def stop(self) -> None:
        """The consumer goes down: the pool may go on, so nothing is released."""
        self._running = False
        if self.consumer.hub is not None:
            with contextlib.suppress(Exception):
                self.consumer.hub.remove(self._signal_read)
        for feed in tuple(self._feeds.values()):
            feed.consumer_stopped()

    def end(self) -> None:
        """The worker ends and its pool is gone: give back everything."""
        self._running = False
        self.keeper.stop()
        with self._ticking:
            for feed in tuple(self._feeds.values()):
                feed.end()

    def _on_signal(self) -> None:
        self._loop_thread = threading.get_ident()
        with contextlib.suppress(BlockingIOError):
            os.read(self._signal_read, 4096)
        self.tick()

    def _holds_triggers(self) -> bool:
        return any(feed.holds_triggers for feed in tuple(self._feeds.values()))

    def _settle(self) -> None:
        self._settling = False
        self.tick()

    def _round(self) -> None:
        """Let each queue run once; who leased last comes last and leaves its slots to others."""
        for feed in sorted(self.feeds, key=lambda feed: feed.supply.leased_at):
            others = any(other.wanting for other in self.feeds if other is not feed)
            if feed.run(self.free_slots() if self.accepting() else 0, reuse=not others):
                self._again = True

    def _notice_blocked(self) -> None:
        """Nobody tells when the plain task in the way ends."""
        if self.blocked:
            self.keeper.watch()


def plain_tasks() -> int:
    """Runs of this process that are no items.

    The pool's threads change Celery's weak set meanwhile: to iterate over it would raise then, or
    see a run twice. A copy of its plain set is made in one step.
    """
    running = (reference() for reference in state.active_requests.data.copy())
    return sum(run is not None and not isinstance(run, ItemRequest) for run in running)


def feeder_of(consumer: Any) -> Feeder:
    """The feeder of a worker process, made on first use.

    Args:
        consumer: The worker's consumer.
    """
    controller = consumer.controller
    feeder: Feeder | None = controller.__dict__.get("vtrr_feeder")
    if feeder is None:
        feeder = controller.vtrr_feeder = Feeder(controller, consumer)
    return feeder


class FeederStep(bootsteps.StartStopStep):
    """Consumer bootstep that starts, stops and ends the feeder."""

    label = "VTRR"
    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        listen()

    def start(self, c: Any) -> None:
        """Celery's hook: the broker connection is up."""
        feeder_of(c).start()

    def register_with_event_loop(self, c: Any, hub: Any) -> None:
        """Celery's hook: the event loop starts."""
        feeder_of(c).register_with_event_loop(hub)

    def stop(self, c: Any) -> None:
        """Celery's hook: the consumer stops, for good or until the broker is back."""
        feeder_of(c).stop()

    def terminate(self, c: Any) -> None:
        """Celery's hook: the consumer stops at once."""
        self.stop(c)

    def shutdown(self, c: Any) -> None:
        """Celery's hook: every worker step has stopped, the pool included."""
        feeder_of(c).end()


def install_step(app: Any) -> None:
    """Add the bootstep to every worker of the app, once."""
    app.steps["consumer"].add(FeederStep)


def _mask_signals_in_child(**_: Any) -> None:
    from celery import current_app  # noqa: PLC0415

    for vtrr in current_app.__dict__.get("vtrr_queues", {}).values():
        vtrr.engine.client.mask_signals = True


signals.worker_process_init.connect(_mask_signals_in_child, weak=False)
