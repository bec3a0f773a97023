"""A daemon thread beside the event loop: listens for hints, keeps time, mends what was lost.

It must not depend on the loop, which stands still during a broker outage and in the solo pool.

Invariant: while a worker runs, expired leases, due items and lost triggers are found without Beat.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

from celery import signals
from celery.utils.log import get_logger

from vtrr_queue.celery.shutdown import LOOK_SECONDS, LastLook
from vtrr_queue.errors import VTRRError

if TYPE_CHECKING:
    from vtrr_queue.celery.feed import Feed
    from vtrr_queue.celery.worker import Feeder
    from vtrr_queue.model import Wake

logger = get_logger(__name__)

BUSY_SECONDS, IDLE_SECONDS = 5.0, 30.0
"""Pause between two looks while items wait or run, and while none does, s."""

UNSURE_SECONDS = 1.0
"""The same while triggers may be lost, so that new items may get none, s."""

LISTEN_SECONDS = 0.5
"""Longest sleep between two checks of what this process has to settle, s."""

HURRY_SECONDS = 30.0
"""How long dead processes are looked for after the worker was told to end, s."""

BLOCKED_SECONDS = 0.05
"""Pause between two tries to lease while plain tasks use every slot, s."""


class Keeper:
    """Time and hints for a :class:`~vtrr_queue.celery.worker.Feeder`.

    Args:
        feeder: The worker's feeder.
    """

    def __init__(self, feeder: Feeder) -> None:
        self._feeder = feeder
        self._next_look: dict[str, float] = {}
        self._next_try = 0.0
        self._ticks_here = False
        self._stopped = threading.Event()
        self._tick = threading.Event()
        self._thread: threading.Thread | None = None
        self._listeners: list[threading.Thread] = []
        self._hurry_until = 0.0
        self._last_look = LastLook(feeder)

    def start(self) -> None:
        """Start the thread once."""
        if self._thread is None:
            signals.worker_shutting_down.connect(self._on_shutdown)
            self._thread = threading.Thread(target=self._run, name="vtrr-keeper", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; it is not waited for."""
        self._stopped.set()
        self._tick.set()

    def ask_tick(self) -> None:
        """Run a tick in this thread: pools without an event loop."""
        self._ticks_here = True
        self._tick.set()

    def expect(self, feed: Feed, wake: Wake) -> None:
        """Look again when the server said something becomes due."""
        if wake.next_wake_ms is not None:
            ahead_ms = max(0, wake.next_wake_ms - wake.server_now_ms)
            self._look_within(feed, ahead_ms / 1000 + 0.002)

    def busy(self, feed: Feed) -> None:
        """Look as often as while items run, whatever the last look has found."""
        self._look_within(feed, BUSY_SECONDS)

    def look_soon(self, feed: Feed) -> None:
        """Look at once, from this class's own thread."""
        self._next_look[feed.vtrr.name] = 0.0
        self._tick.set()

    def hurry(self) -> None:
        """Runs are being ended from outside: look often for what is dead, for a while."""
        self._hurry_until = time.monotonic() + HURRY_SECONDS
        self._tick.set()

    @property
    def _hurried(self) -> bool:
        return time.monotonic() < self._hurry_until

    def watch(self) -> None:
        """Try again and again, until the feeder is no longer blocked."""
        self._next_try = time.monotonic() + BLOCKED_SECONDS
        self._tick.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._cycle()
            except Exception:  # the thread must outlive any single failure
                logger.exception("vtrr-queue keeper")
                self._stopped.wait(1.0)

    def _cycle(self) -> None:
        feeds = self._feeder.feeds
        for feed in feeds:
            if not any(t.name == _listener_name(feed) for t in self._listeners):
                self._listen(feed)
        self._tick.wait(self._pause(feeds))
        self._tick.clear()
        if self._stopped.is_set():
            return
        if self._ticks_here:
            self._ticks_here = False
            self._feeder.tick()
        if self._hurried:
            self._last_look.release(feeds)
        now = time.monotonic()
        self._try_again(now)
        for feed in feeds:
            self._attend(feed, now)

    def _attend(self, feed: Feed, now: float) -> None:
        feed.release_dropped()
        feed.counter.tell()
        due = feed.next_due()
        if due is not None and now >= due:
            self._settle(feed)
        if now >= self._next_look.get(feed.vtrr.name, 0.0):
            self._look(feed)

    def _on_shutdown(self, **_: object) -> None:
        """Celery's signal, sent before the worker says so elsewhere."""
        self.hurry()

    def _try_again(self, now: float) -> None:
        if now >= self._next_try:
            self._next_try = now + BLOCKED_SECONDS
            if self._feeder.could_lease():
                self._feeder.wake()

    def _pause(self, feeds: list[Feed]) -> float:
        now, dues = time.monotonic(), [time.monotonic() + LISTEN_SECONDS]
        if self._hurried:
            dues.append(now + LOOK_SECONDS)
        if self._feeder.blocked:
            dues.append(self._next_try)
        for feed in feeds:
            dues.append(self._next_look.get(feed.vtrr.name, 0.0))
            due = feed.next_due()
            if due is not None:
                dues.append(max(due, now + 0.05))
        return max(0.0, min(dues) - now)

    def _settle(self, feed: Feed) -> None:
        """The loop settles by itself within moments; when it stands still, do it from here."""
        if self._feeder.accepting():
            self._feeder.wake()
        else:
            self._feeder.flush(feed)

    def _look_within(self, feed: Feed, seconds: float) -> None:
        due, name = time.monotonic() + seconds, feed.vtrr.name
        if due < self._next_look.get(name, 0.0):
            self._next_look[name] = due
            self._tick.set()

    def _look(self, feed: Feed) -> None:
        name = feed.vtrr.name
        # Set before the call, so that what other threads hear meanwhile is not overwritten.
        self._next_look[name] = time.monotonic() + IDLE_SECONDS
        try:
            feed.vtrr.engine.declare(anyway=True)
            reclaimed = feed.vtrr.engine.reclaim(budget=feed.vtrr.budget)
        except VTRRError as exc:
            logger.warning("queue %r: %s", name, exc)
            self.busy(feed)
            return
        wake = reclaimed.wake
        if reclaimed.died:
            logger.error("queue %r: %d items are dead letters: each lost max_timeouts runs", name,
                         reclaimed.died)  # fmt: skip
        if wake.waiting > 0:
            feed.waiting_seen()
        self._look_within(feed, _pause_after(feed, wake) * random.uniform(0.8, 1.2))  # noqa: S311
        self.expect(feed, wake)
        feed.vtrr.send_triggers(wake)

    def _listen(self, feed: Feed) -> None:
        thread = threading.Thread(
            target=self._hear, args=(feed,), name=_listener_name(feed), daemon=True
        )
        self._listeners.append(thread)
        thread.start()

    def _hear(self, feed: Feed) -> None:
        """Wait for hints on the queue's channel; on a lost connection listen again, then ask."""
        engine = feed.vtrr.engine
        while not self._stopped.is_set():
            try:
                hints = engine.client.hear(engine.keys.wake_channel)
                next(hints)  # the subscription stands: from here on no hint is missed
                self.look_soon(feed)
                for hint in hints:
                    if self._stopped.is_set():
                        return
                    self._heard(feed, hint)
            except VTRRError as exc:
                logger.debug("queue %r: not listening: %r", feed.vtrr.name, exc)
                self._stopped.wait(1.0)

    def _heard(self, feed: Feed, hint: bytes | None) -> None:
        if hint == b"ready" and feed.vtrr.dispatch == "direct":
            feed.hint()
        elif hint is not None:
            self.look_soon(feed)


def _pause_after(feed: Feed, wake: Wake) -> float:
    if feed.supply.unsure:
        return UNSURE_SECONDS
    if wake.waiting > 0 or wake.next_wake_ms is not None:
        return BUSY_SECONDS
    # A lease that begins right after this look can't be lost before it ends.
    return min(IDLE_SECONDS, max(BUSY_SECONDS, feed.vtrr.lease_seconds))


def _listener_name(feed: Feed) -> str:
    return f"vtrr-listener-{feed.vtrr.name}"
