"""Renews the leases of running items from a thread of its own (a greenlet under gevent).

It must not depend on the worker's loop, which stands still during a broker outage and in the solo
pool, nor on the keeper's thread, which may wait for Redis on behalf of something else
(docs/design/0006-heartbeat.md).

Invariants: only what this worker runs is renewed; nothing is sent while nothing runs; a run older
than ``max_runtime`` is not renewed.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from celery.utils.log import get_logger

from vtrr_queue.errors import VTRRError

if TYPE_CHECKING:
    from vtrr_queue.celery.feed import Feed
    from vtrr_queue.celery.holding import Held

logger = get_logger(__name__)

AGAIN_SECONDS = 1.0
"""Longest pause after a renewal that failed, s."""


class Heartbeat:
    """Heartbeat of one queue in one worker.

    Args:
        feed: Whose leases are renewed.
        interval: Pause between two renewals, s.
    """

    def __init__(self, feed: Feed, interval: float) -> None:
        self._feed, self._interval = feed, interval
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread once."""
        if self._thread is None:
            name = f"vtrr-heartbeat-{self._feed.vtrr.name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; it is not waited for."""
        self._stopped.set()

    def _run(self) -> None:
        pause = self._interval
        while not self._stopped.wait(pause):
            try:
                self._beat()
                pause = self._interval
            except VTRRError as exc:
                logger.warning("queue %r: leases not renewed: %s", self._feed.vtrr.name, exc)
                pause = min(self._interval, AGAIN_SECONDS)
            except Exception:  # the thread must outlive any single failure
                logger.exception("vtrr-queue heartbeat")
                pause = min(self._interval, AGAIN_SECONDS)

    def _beat(self) -> None:
        engine, running = self._feed.vtrr.engine, self._feed.running()
        held = [each for each in running if self._may_go_on(each)]
        lost = [each for each in running if each.overdue and not engine.held(each.lease.token)]
        if held:
            gone = engine.renew_many([(each.lease.item_id, each.lease.token) for each in held])
            lost += [each for each in held if each.lease.token in gone]
        self._feed.lose([each for each in lost if self._was_taken(each)])

    def _was_taken(self, held: Held) -> bool:
        """Whether a lease that is gone was taken away; a run that asks for a retry gives it up."""
        lease = held.lease
        if self._feed.vtrr.engine.was_retried(lease.item_id, lease.retries):
            held.ending = True
        return not held.ending

    def _may_go_on(self, held: Held) -> bool:
        longest = self._feed.vtrr.holding.max_runtime
        if longest is None or time.monotonic() - held.leased_at < longest:
            return True
        if not held.overdue:
            held.overdue = True
            logger.warning(
                "item %s[%s] has run for more than max_runtime (%g s): its lease is not renewed",
                self._feed.vtrr.task_name, held.lease.item_id, longest,
            )  # fmt: skip
        return False
