"""One queue inside a worker: permits come in, leases go to Celery, ended runs are settled.

Invariant: a lease this worker took is in ``held`` until its fate reached Redis or the worker ends.
"""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from celery.utils.log import get_logger
from kombu.serialization import prepare_accept_content

from vtrr_queue.celery.counting import Counter
from vtrr_queue.celery.heartbeat import Heartbeat
from vtrr_queue.celery.holding import Ended, Held, Permit
from vtrr_queue.celery.message import UNREADABLE, read_message
from vtrr_queue.celery.outage import can_stop
from vtrr_queue.celery.request import Fate
from vtrr_queue.celery.settling import carry_out
from vtrr_queue.errors import VTRRError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.celery.worker import Feeder
    from vtrr_queue.model import Lease, Leased, Wake

logger = get_logger(__name__)

MOST_AT_ONCE = 64
"""Most acks and most leases in one round trip."""

QUIET_SECONDS = 4.0
"""After so long without a trigger, an idle worker pulls what waits: others may sit on them, s."""

GONE_AFTER_SECONDS = 2.0
"""After a broker outage, a request the pool has not started by then was dropped by Celery, s."""


class Feed:
    """One queue of one worker.

    Args:
        vtrr: The queue.
        feeder: The worker's feeder.
    """

    def __init__(self, vtrr: VTRRQueue, feeder: Feeder) -> None:
        self.vtrr, self.feeder = vtrr, feeder
        self.held: dict[str, Held] = {}
        self.permits: deque[Permit] = deque()
        self.ended: deque[Ended] = deque()
        self._suspects: tuple[float, list[str]] = (0.0, [])
        self._accept = prepare_accept_content(vtrr.app.conf.accept_content)
        self.leased_at = 0.0
        self._hungry = True
        self._failed_until = 0.0
        self._permit_at = time.monotonic()
        self._unsure_until = 0.0
        self._lost: deque[Held] = deque()
        self.unanswered: list[str] = []
        self.counter = Counter(vtrr)
        interval = vtrr.holding.heartbeat_seconds
        self._heartbeat = None if interval is None else Heartbeat(self, interval)

    @property
    def unsure(self) -> bool:
        """Whether the ledger may hold triggers that are lost, or of no use to this worker."""
        return time.monotonic() < self._unsure_until

    @property
    def pulling(self) -> bool:
        """Whether this worker leases without a trigger, of the queues it consumes.

        With direct dispatch it always does; otherwise when triggers may be lost, until those have
        left the ledger, because they keep others from being sent.
        """
        consumer, name = self.feeder.consumer.task_consumer, self.vtrr.celery_queue
        if consumer is None or not (self.vtrr.dispatch == "direct" or self.unsure):
            return False
        queue = self.vtrr.app.amqp.queues.aliases.get(name, name)
        consumed: bool = consumer.consuming_from(queue)
        return consumed

    def permit(self, trigger_id: str, acknowledge: Callable[..., None]) -> None:
        """A trigger arrived."""
        self._permit_at = time.monotonic()
        self.permits.append(Permit(trigger_id, acknowledge))
        self.feeder.wake()

    def hint(self) -> None:
        """Something became servable."""
        self._hungry = True
        if self.pulling:
            self.feeder.wake()

    def waiting_seen(self) -> None:
        """Items wait; pull them if there are slots and no trigger has come for long."""
        quiet = time.monotonic() - max(self._permit_at, self.leased_at) > QUIET_SECONDS
        if quiet and self.feeder.free_slots() > 0:
            self._doubt_triggers()
        self.hint()

    @property
    def wanting(self) -> bool:
        """Whether it would lease if there were a slot."""
        return bool(self.permits or self.unanswered) or (self._hungry and self.pulling)

    def run(self, free: int, *, reuse: bool = True) -> bool:
        """Settle what ended and lease what fits.

        Args:
            free: Free pool slots; 0 while nothing may be leased.
            reuse: Fill the slots of what ended as well; else they are left to other queues.

        Returns:
            Whether another round may find more.
        """
        self._stop_lost()
        now = time.monotonic()
        if now < self._failed_until:
            return False
        ended = self._due(now)
        acks = [end for end in ended if end.fate in {Fate.ACK, Fate.CANCELLED}]
        room = (free + len(ended) if reuse else free) + len(self.unanswered)
        taken = self._take(min(room, MOST_AT_ONCE), freed=bool(ended))
        try:
            for end in ended:  # before their slots are used again
                if end.fate not in {Fate.ACK, Fate.CANCELLED}:
                    self._settle(end)
            more = self._exchange(acks, taken)
        except VTRRError as exc:
            self._failed(exc, ended, taken)
            return False
        left = bool(ended) and not reuse
        return more or left or bool(self.ended and self.ended[0].due <= now)

    def flush(self) -> None:
        """Settle what ended, without leasing; for times when the event loop stands still."""
        self.run(0)

    def consumer_started(self, *, again: bool) -> None:
        """Ask for items; look after what an outage may have lost.

        Args:
            again: The broker was away.
        """
        self._hungry = True
        if again:
            self._doubt_triggers()
            self.feeder.keeper.look_soon(self)
        waiting = [token for token, held in self.held.items() if not held.started]
        self._suspects = (time.monotonic() + GONE_AFTER_SECONDS, waiting)

    def consumer_stopped(self) -> None:
        """Forget permits: their messages belong to a channel that is gone."""
        self.permits.clear()
        for held in self.held.values():
            held.permit = None

    def release_dropped(self) -> None:
        """Release what Celery dropped in a reconnect before the pool had started it."""
        due, tokens = self._suspects
        if not tokens or time.monotonic() < due:
            return
        self._suspects = (0.0, [])
        for token in tokens:
            held = self.held.get(token)
            if held is not None and not held.started:
                self.settle(held.lease, Fate.RELEASE, "dropped by a reconnect")

    def end(self) -> None:
        """The worker ends: settle what ended, release what is still held."""
        for end in self.ended:
            end.due = 0.0
        self._failed_until = 0.0
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self.flush()
        for held in list(self.held.values()):
            self.ended.append(Ended(held.lease, Fate.RELEASE, "worker shutdown"))
        self.flush()
        self.counter.tell(now=True)

    def settle(
        self, lease: Lease, fate: Fate, why: str = "", *, grace_seconds: float = 0.0,
        **details: str,
    ) -> None:  # fmt: skip
        """A run ended, or will have ended after the grace; called from any thread."""
        due = time.monotonic() + grace_seconds if grace_seconds else 0.0
        if lease.token in self.held:
            self.held[lease.token].ending = True
        self.ended.append(Ended(lease, fate, why, due, **details))
        self.feeder.wake()

    def started(self, lease: Lease, request: Any) -> None:
        """The pool accepted a run."""
        held = self.held.get(lease.token)
        if held is not None:
            held.request = request
            if held.lost:
                self._stop(held)

    def running(self) -> list[Held]:
        """What is held and goes on, as far as this worker knows; called from any thread."""
        return [held for held in tuple(self.held.values()) if not (held.ending or held.lost)]

    def lose(self, lost: list[Held]) -> None:
        """The server no longer knows these leases; called from any thread."""
        for held in lost:
            if held.ending or held.lease.token not in self.held:
                continue  # its end has reached Redis meanwhile
            held.lost = True
            logger.warning("item %s[%s] has lost its lease while it runs", self.vtrr.task_name,
                           held.lease.item_id)  # fmt: skip
            if held.started:  # else its start will do it
                self._stop(held)

    def next_due(self) -> float | None:
        """Monotonic time at which an ended run or a suspect must be looked at; None for never."""
        dues = [end.due for end in tuple(self.ended)] + [0.0] * len(self._lost)
        if self._suspects[1]:
            dues.append(self._suspects[0])
        return max(min(dues), self._failed_until) if dues else None

    def _stop(self, held: Held) -> None:
        """Have a run stopped whose lease is gone, where the queue asks for it."""
        if self.vtrr.holding.on_lease_lost != "terminate":
            return
        pool = self.feeder.consumer.pool
        if can_stop(pool):
            self._lost.append(held)
            self.feeder.wake()
        else:
            held.request.vtrr_stop(pool)  # says so; the solo pool's loop is busy with the run

    def _stop_lost(self) -> None:
        while self._lost:
            held = self._lost.popleft()
            if not held.ending:
                held.request.vtrr_stop(self.feeder.consumer.pool)

    def _doubt_triggers(self) -> None:
        if self.vtrr.dispatch == "trigger":
            self._unsure_until = time.monotonic() + self.vtrr.budget.timeout_ms / 1000 + 1

    def _due(self, now: float) -> list[Ended]:
        ready: list[Ended] = []
        for _ in range(min(len(self.ended), MOST_AT_ONCE)):
            end = self.ended.popleft()
            if end.due <= now:
                ready.append(end)
            else:
                self.ended.append(end)
        return ready

    def _take(self, room: int, *, freed: bool) -> list[Permit | None]:
        if room <= 0 or not self.feeder.accepting():
            return []
        if self.permits:
            return [self.permits.popleft() for _ in range(min(room, len(self.permits)))]
        if self.unanswered:  # what they hold must not wait for a trigger
            return [None] * min(room, len(self.unanswered))
        # What ends in the same round trip may make room under a cap.
        if not (self.pulling and (self._hungry or freed)):
            return []
        self._hungry = False  # before the call: a hint that comes during it must stand
        return [None] * room

    def _exchange(self, acks: list[Ended], taken: list[Permit | None]) -> bool:
        engine, budget = self.vtrr.engine, self.vtrr.budget
        pulled = bool(taken) and taken[0] is None
        groups = [taken] if pulled else [[permit] for permit in taken]
        tokens = self._tokens(len(taken))
        named = [tokens] if pulled else [[token] for token in tokens]
        acking = [engine.ack_call(e.lease.item_id, e.lease.token, budget=budget) for e in acks]
        leasing = [
            engine.lease_call(
                names, holder=self.feeder.hostname, budget=budget, pulled=pulled,
                trigger_id=group[0].trigger_id if group[0] else "",
            )
            for group, names in zip(groups, named, strict=True)
        ]  # fmt: skip
        calls = [call for call, _ in (*acking, *leasing)]
        replies = iter(engine.client.call_many(calls) if calls else ())
        for end, (_, read_ack) in zip(acks, acking, strict=True):
            settled = read_ack(next(replies))
            self.vtrr.send_triggers(settled.wake)
            self._forget(end, settled.held)
        more = False
        for group, names, (_, read_lease) in zip(groups, named, leasing, strict=True):
            leased = read_lease(next(replies))
            self.unanswered = [token for token in self.unanswered if token not in names]
            more = self._leased(leased, group) or more
        return more

    def _tokens(self, count: int) -> list[str]:
        """Tokens for leases, first those of unanswered calls: they may hold something."""
        missing = count - len(self.unanswered)
        if missing > 0:
            self.unanswered += self.vtrr.engine.new_tokens(missing)
        return self.unanswered[:count]

    def _leased(self, leased: Leased, group: list[Permit | None]) -> bool:
        self.vtrr.send_triggers(leased.wake)
        self.feeder.keeper.expect(self, _next_look(leased))
        if not leased.items and group[0] is not None:
            group[0].ack()
        if group[0] is None and len(leased.items) == len(group):
            self._hungry = True
        if leased.items:
            self.leased_at = time.monotonic()
            self.feeder.keeper.busy(self)
            if self._heartbeat is not None:
                self._heartbeat.start()
        for at, lease in enumerate(leased.items):
            self.held[lease.token] = Held(lease, group[at])
            self.counter.leased(lease, leased.wake.server_now_ms)
        for lease in leased.items:
            self._submit(lease)
        return bool(leased.items) and bool(self.permits or self.pulling)

    def _submit(self, lease: Lease) -> None:
        consumer = self.feeder.consumer
        try:
            item = read_message(lease, self, self._accept)
            strategy = consumer.strategies[self.vtrr.task_name]
            strategy(item, None, _ignore, _ignore, consumer.on_task_message)
        except UNREADABLE as exc:
            self.settle(lease, Fate.REJECTED, str(exc) or repr(exc))

    def _settle(self, end: Ended) -> None:
        self._forget(end, carry_out(self.vtrr, end))

    def _forget(self, end: Ended, held: bool) -> None:
        entry = self.held.pop(end.lease.token, None)
        self._hungry = True
        if entry is not None and entry.permit is not None:
            entry.permit.ack()
        if entry is not None and held:
            self.counter.ended(end, entry)
        if not held:
            logger.info("item %s[%s]: its lease was no longer held when it ended",
                        self.vtrr.task_name, end.lease.item_id)  # fmt: skip
        elif end.fate not in {Fate.ACK, Fate.RETRY, Fate.FAILED}:
            logger.warning("item %s[%s]: %s (%s)", self.vtrr.task_name, end.lease.item_id,
                           end.fate.value, end.why)  # fmt: skip

    def _failed(self, exc: VTRRError, ended: list[Ended], taken: list[Permit | None]) -> None:
        logger.warning("queue %r: %s; trying again", self.vtrr.name, exc)
        self._failed_until = time.monotonic() + 1.0
        self._hungry = True
        self.ended.extendleft(end for end in reversed(ended) if end.lease.token in self.held)
        self.permits.extendleft(permit for permit in reversed(taken) if permit is not None)


def _next_look(leased: Leased) -> Wake:
    """Look at the end of what was leased: others leased then may have died meanwhile."""
    if not leased.items:
        return leased.wake
    due = min(leased.items[0].expires_at_ms, leased.wake.next_wake_ms or math.inf)
    return replace(leased.wake, next_wake_ms=int(due))


def _ignore(*_: Any, **__: Any) -> None:
    """Celery's ack and reject of a message: the request's fate decides instead."""
