"""Triggers: the payload-free Celery messages that make a worker take one item.

Invariant: publishing is best effort with a bound; a trigger that could not be sent leaves the
ledger again and is sent later. Items are stored before their triggers are sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import time
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from celery.utils.log import get_logger

from vtrr_queue.celery.posting import Poster
from vtrr_queue.errors import VTRRError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtrr_queue.celery.queue import VTRRQueue

logger = get_logger(__name__)

PUBLISH_WAIT_SECONDS = 0.6
"""Longest time an enqueue waits for the broker to take its triggers, s."""

REPAIR_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Pauses between attempts to send what a failed publish left unsent, s."""

UNACKED_SECONDS = 600.0
"""Longest time a trigger from an AMQP broker stays unacknowledged, s.

RabbitMQ closes the channel over one of 30 minutes, and Celery then ends the worker."""

SWEEPS = 20
"""How often within that time overdue ones are looked for."""


def strategy(task: Any, app: Any, consumer: Any) -> Callable[..., None]:
    """Celery strategy of the trigger task: a permit for one lease, never a run in the pool.

    Args:
        task: The trigger task.
        app: The Celery app.
        consumer: The worker's consumer.
    """
    from vtrr_queue.celery.worker import feeder_of  # noqa: PLC0415 - workers only

    feed = feeder_of(consumer).feed(task.vtrr_queue_name)
    unacked = None
    if consumer.connection.transport.driver_type == "amqp":
        unacked = Unacked(UNACKED_SECONDS)
        consumer.timer.call_repeatedly(UNACKED_SECONDS / SWEEPS, unacked.sweep)

    def on_trigger(
        message: Any, body: Any, ack: Any, reject: Any, callbacks: Any, **_: Any
    ) -> None:
        feed.permit(message.headers["id"], unacked.bounded(ack) if unacked else ack)

    return on_trigger


class Unacked:
    """Acknowledges in time what is held for long, such as the trigger of an item of an hour.

    The item's lease does not depend on it. A trigger that a busy worker still keeps for later has
    left the ledger by then, which has sent another.

    Args:
        seconds: Longest time until a message is acknowledged.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._numbers = itertools.count()
        self._held: dict[int, tuple[float, Callable[..., object]]] = {}

    def bounded(self, ack: Callable[..., object]) -> Callable[..., None]:
        """Take note of a message.

        Args:
            ack: Acknowledges it.

        Returns:
            The same, once only.
        """
        number = next(self._numbers)
        self._held[number] = (time.monotonic(), ack)
        return partial(self._acknowledge, number)

    def sweep(self) -> None:
        """Acknowledge what is overdue."""
        before = time.monotonic() - self._seconds
        overdue = itertools.takewhile(lambda held: held[1][0] <= before, list(self._held.items()))
        for number, _ in overdue:
            self._acknowledge(number, logger, ())

    def _acknowledge(self, number: int, *how: object) -> None:
        _, ack = self._held.pop(number, (0.0, None))
        if ack is not None:
            ack(*how)


class Publisher:
    """Publishes triggers from a thread of its own, so that a dead broker delays nobody.

    Args:
        vtrr: The queue whose triggers these are.
    """

    def __init__(self, vtrr: VTRRQueue) -> None:
        self._vtrr = vtrr
        self._pid = 0
        self._jobs: SimpleQueue[tuple[Sequence[str], Callable[[], None]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._failing = False
        self._busy_since = 0.0
        self._poster = Poster(vtrr)

    def send(self, trigger_ids: Sequence[str], wait_seconds: float) -> bool:
        """Publish triggers that the ledger holds already.

        Args:
            trigger_ids: Their ids.
            wait_seconds: Longest wait for the broker, s; 0 returns at once.

        Returns:
            Whether they are known to be published.
        """
        if not trigger_ids:
            return True
        done = threading.Lock()  # a plain lock: half the time of an event
        done.acquire()
        self._post(trigger_ids, done.release)
        if wait_seconds <= 0:
            return False
        in_time = not self._is_stuck(wait_seconds) and done.acquire(timeout=wait_seconds)
        return self._heard(trigger_ids, in_time=in_time)

    async def asend(self, trigger_ids: Sequence[str], wait_seconds: float) -> bool:
        """As :meth:`send`; the event loop goes on meanwhile."""
        if not trigger_ids:
            return True
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(done.set)

        self._post(trigger_ids, tell)
        in_time = not self._is_stuck(wait_seconds)
        if in_time:
            try:
                await asyncio.wait_for(done.wait(), wait_seconds)
            except TimeoutError:
                in_time = False
        return self._heard(trigger_ids, in_time=in_time)

    def _post(self, trigger_ids: Sequence[str], tell: Callable[[], None]) -> None:
        self._ensure_thread()
        self._jobs.put((trigger_ids, tell))

    def _is_stuck(self, wait_seconds: float) -> bool:
        since = self._busy_since
        return self._failing or (since > 0 and time.monotonic() - since > wait_seconds)

    def _heard(self, trigger_ids: Sequence[str], *, in_time: bool) -> bool:
        if in_time:
            return not self._failing
        logger.warning(
            "broker not reachable: %d triggers of queue %r are sent later, the items are stored",
            len(trigger_ids), self._vtrr.name,
        )  # fmt: skip
        return False

    def _ensure_thread(self) -> None:
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid == os.getpid():
                return
            self._jobs, self._poster = SimpleQueue(), Poster(self._vtrr)
            self._failing, self._busy_since = False, 0.0
            threading.Thread(
                target=self._run, name=f"vtrr-triggers-{self._vtrr.name}", daemon=True
            ).start()
            self._pid = os.getpid()

    def _run(self) -> None:
        repairs = 0
        while True:
            pause = REPAIR_SECONDS[min(repairs, len(REPAIR_SECONDS)) - 1] if repairs else None
            try:
                trigger_ids, tell = self._jobs.get(timeout=pause)
            except Empty:
                repairs = repairs + 1 if not self._repair() else 0
                continue
            if not self._publish(trigger_ids):
                repairs = max(repairs, 1)
            tell()

    def _repair(self) -> bool:
        try:
            wake = self._vtrr.engine.reclaim(budget=self._vtrr.budget).wake
        except Exception as exc:  # noqa: BLE001 - Redis may be down as well; try again later
            logger.debug("triggers of %r not repaired: %r", self._vtrr.name, exc)
            return False
        return not wake.triggers or self._publish(wake.triggers)

    def _publish(self, trigger_ids: Sequence[str]) -> bool:
        self._busy_since = time.monotonic()
        sent = 0
        try:
            for trigger_id in trigger_ids:
                self._poster.post(trigger_id)
                sent += 1
            self._failing = False
        except Exception as exc:  # noqa: BLE001 - any transport has errors of its own
            self._failing = True
            logger.warning("trigger of queue %r not sent: %r", self._vtrr.name, exc)
            self._poster.drop()
            self._forget(trigger_ids[sent:])
        finally:
            self._busy_since = 0.0
        return not self._failing

    def _forget(self, trigger_ids: Sequence[str]) -> None:
        try:
            self._vtrr.engine.forget_triggers(trigger_ids)
        except VTRRError as exc:
            logger.debug("triggers stay in the ledger until they count as lost: %r", exc)
