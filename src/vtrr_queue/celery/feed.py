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

from vtrr_queue.celery.ahead import Ahead
from vtrr_queue.celery.counting import Counter
from vtrr_queue.celery.heartbeat import Heartbeat
from vtrr_queue.celery.holding import Ended, Grant, Held
from vtrr_queue.celery.message import UNREADABLE, read_message
from vtrr_queue.celery.outage import can_stop
from vtrr_queue.celery.request import Fate
from vtrr_queue.celery.settling import carry_out
from vtrr_queue.celery.supply import Supply
from vtrr_queue.errors import VTRRError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.celery.worker import Feeder
    from vtrr_queue.model import Lease, Leased, Wake

logger = get_logger(__name__)

MOST_AT_ONCE = 64
"""Most acks and most leases in one round trip."""

NOT_STARTED = "taken ahead, not started"
"""Why a lease taken ahead is given back; nothing to warn of."""

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
        self.supply, self._ahead = Supply(vtrr, feeder), Ahead(vtrr.prefetch)
        self.held: dict[str, Held] = {}
        self.ended: deque[Ended] = deque()
        self._suspects: tuple[float, list[str]] = (0.0, [])
        self._accept = prepare_accept_content(vtrr.app.conf.accept_content)
        self._failed_until = 0.0
        self._vacant = 0
        self._lost: deque[Held] = deque()
        self.counter = Counter(vtrr)
        interval = vtrr.holding.heartbeat_seconds
        self._heartbeat = None if interval is None else Heartbeat(self, interval)

    @property
    def slots_used(self) -> int:
        """Slots of the pool that its items use, or that unanswered calls may have filled."""
        return len(self.held) - len(self._ahead) + len(self.supply.unanswered)

    @property
    def holds_triggers(self) -> bool:
        """Whether a trigger that came is not acknowledged yet."""
        taken = any(held.grant.permit for held in tuple(self.held.values()))
        return taken or self.supply.holds_permits

    @property
    def wanting(self) -> bool:
        """Whether it would start something if there were a slot."""
        return bool(self._ahead) or self.supply.wanting

    def permit(self, trigger_id: str, acknowledge: Callable[..., None]) -> None:
        """A trigger arrived."""
        self.supply.permit(trigger_id, acknowledge)
        self.feeder.wake()

    def hint(self) -> None:
        """Something became servable."""
        if self.supply.hint():
            self.feeder.wake()

    def waiting_seen(self) -> None:
        """Items wait; pull them if there are slots and no trigger has come for long."""
        self.supply.waiting_seen()
        self.hint()

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
        for held in reversed(self._ahead.stale(everything=not self.feeder.accepting())):
            self.ended.append(Ended(held.lease, Fate.RELEASE, NOT_STARTED))
        ended = self._due(now)
        slots = free + self._leaving(ended) if reuse else free
        slots -= self._start_ahead(slots)
        acks = [end for end in ended if end.fate in {Fate.ACK, Fate.CANCELLED}]
        if len(acks) == len(ended) and self._may_wait():
            self.ended.extendleft(reversed(ended))
            return False
        taken = self._take(ended, slots, reuse=reuse)
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
        self.supply.hint()
        if again:
            self.supply.doubt_triggers()
            self.feeder.keeper.look_soon(self)
        waiting = [
            held.lease.token
            for held in tuple(self.held.values())
            if held.submitted and not held.started
        ]
        self._suspects = (time.monotonic() + GONE_AFTER_SECONDS, waiting)

    def consumer_stopped(self) -> None:
        """Forget permits: their messages belong to a channel that is gone."""
        self.supply.forget_permits()
        for held in tuple(self.held.values()):
            held.grant = Grant()

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
        for end in tuple(self.ended):  # threads of the pool may outlive it
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
        stale = self._ahead.next_due()
        if stale is not None:
            dues.append(stale)
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

    def _due(self, now: float) -> list[Ended]:
        ready: list[Ended] = []
        for _ in range(min(len(self.ended), MOST_AT_ONCE)):
            end = self.ended.popleft()
            if end.due <= now:
                ready.append(end)
            else:
                self.ended.append(end)
        return ready

    def _leaving(self, ended: list[Ended]) -> int:
        """Slots that they leave; what has never started leaves none."""
        found = (self.held.get(end.lease.token) for end in ended)
        return sum(held is not None and held.submitted for held in found)

    def _start_ahead(self, slots: int) -> int:
        """Start what is in store, in so many slots at most; in how many."""
        started = 0
        while started < slots and (found := self._ahead.take(1)):
            (held,) = found
            if held.lost:  # it runs elsewhere by now
                self.held.pop(held.lease.token, None)
                continue
            held.leased_at = time.monotonic()
            self._submit(held)
            started += 1
        return started

    def _may_wait(self) -> bool:
        """Whether what has ended can be settled with what ends next."""
        if not self.vtrr.prefetch or len(self.ended) >= MOST_AT_ONCE:
            return False
        return self._ahead.may_wait(self.feeder.slots) and self.feeder.settle_soon()

    def _take(self, ended: list[Ended], slots: int, *, reuse: bool) -> list[Grant]:
        """Grounds to lease for the slots that are free, and for the store."""
        for end in ended:
            held = self.held.get(end.lease.token)
            if held is not None:
                self.supply.ended(held.grant)
        room = slots + len(self.supply.unanswered)
        self._vacant = max(0, room)
        if self.vtrr.prefetch and reuse and room >= 0 and self.feeder.accepting():
            room += max(0, self._ahead.wanted(self.feeder.slots) - len(self._ahead))
        return self.supply.take(min(room, MOST_AT_ONCE))

    def _exchange(self, acks: list[Ended], taken: list[Grant]) -> bool:
        engine, budget = self.vtrr.engine, self.vtrr.budget
        groups = _groups(taken)
        tokens = self.supply.tokens(len(taken))
        named: list[list[str]] = []
        for group in groups:
            named.append(tokens[: len(group)])
            tokens = tokens[len(group) :]
        acking = [engine.ack_call(e.lease.item_id, e.lease.token, budget=budget) for e in acks]
        leasing = [
            engine.lease_call(
                names, holder=self.feeder.hostname, budget=budget, pulled=group[0].pulled,
                trigger_id=group[0].trigger_id,
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
            self.supply.answered(names)
            more = self._leased(leased, group) or more
        return more

    def _leased(self, leased: Leased, group: list[Grant]) -> bool:
        self.vtrr.send_triggers(leased.wake)
        self.feeder.keeper.expect(self, _next_look(leased))
        self.supply.leased(group, len(leased.items), leased.wake.waiting)
        if not leased.items:
            self._acknowledge(group[0])
            return False
        self.feeder.keeper.busy(self)
        if self._heartbeat is not None:
            self._heartbeat.start()
        fresh = [Held(lease, grant) for lease, grant in zip(leased.items, group, strict=False)]
        for held in fresh:
            self.held[held.lease.token] = held
            self.counter.leased(held.lease, leased.wake.server_now_ms)
        for held in fresh:
            if self._vacant > 0 or not self.vtrr.prefetch:
                self._vacant -= 1
                self._submit(held)
            else:
                self._ahead.put(held)
        return self.supply.goes_on

    def _submit(self, held: Held) -> None:
        consumer, lease = self.feeder.consumer, held.lease
        held.submitted = True
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
        if entry is not None:
            self._acknowledge(entry.grant)
        if entry is not None and held:
            self.counter.ended(end, entry)
        if entry is not None and entry.submitted:
            self._ahead.ran(time.monotonic() - entry.leased_at)
        if not held:
            logger.info("item %s[%s]: its lease was no longer held when it ended",
                        self.vtrr.task_name, end.lease.item_id)  # fmt: skip
        elif end.fate not in {Fate.ACK, Fate.RETRY, Fate.FAILED} and end.why != NOT_STARTED:
            logger.warning("item %s[%s]: %s (%s)", self.vtrr.task_name, end.lease.item_id,
                           end.fate.value, end.why)  # fmt: skip

    def _acknowledge(self, grant: Grant) -> None:
        if grant.permit is not None:
            grant.permit.ack()
            self.feeder.go_round()

    def _failed(self, exc: VTRRError, ended: list[Ended], taken: list[Grant]) -> None:
        logger.warning("queue %r: %s; trying again", self.vtrr.name, exc)
        self._failed_until = time.monotonic() + 1.0
        self.ended.extendleft(end for end in reversed(ended) if end.lease.token in self.held)
        self.supply.give_back(taken)


def _groups(grants: list[Grant]) -> list[list[Grant]]:
    """What is leased in one call each: a call takes one trigger, or none for any number."""
    single = [[grant] for grant in grants if grant.permit is not None]
    joint = [grant for grant in grants if grant.permit is None]
    return [joint, *single] if joint else single


def _next_look(leased: Leased) -> Wake:
    """Look at the end of what was leased: others leased then may have died meanwhile."""
    if not leased.items:
        return leased.wake
    due = min(leased.items[0].expires_at_ms, leased.wake.next_wake_ms or math.inf)
    return replace(leased.wake, next_wake_ms=int(due))


def _ignore(*_: Any, **__: Any) -> None:
    """Celery's ack and reject of a message: the request's fate decides instead."""
