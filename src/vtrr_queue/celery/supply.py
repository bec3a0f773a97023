"""What a worker may lease, of one queue, and on what grounds: a trigger, or that it pulls.

A trigger gives one lease. When the run ends soon, the same trigger gives the next one: publishing,
fetching and acknowledging another for each item of a millisecond would cost more than the items
(docs/design/0011-short-runs.md).

Invariant: no lease without grounds, and none of a queue the worker doesn't consume.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from vtrr_queue.celery.holding import Grant, Permit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.celery.worker import Feeder

QUIET_SECONDS = 4.0
"""After so long without a trigger, an idle worker pulls what waits: others may sit on them, s."""

TRIGGER_SERVES, TRIGGER_SERVES_SECONDS = 4, 0.025
"""Most items of one trigger, and the time in which they begin, s.

Other queues of the worker get their turn between the triggers."""


class Supply:
    """The grounds on which a worker leases items of one queue.

    Args:
        vtrr: The queue.
        feeder: The worker's feeder.

    Attributes:
        unanswered: Tokens of lease calls that were never answered: they may hold something.
        leased_at: When something was leased last, monotonic s.
    """

    def __init__(self, vtrr: VTRRQueue, feeder: Feeder) -> None:
        self._vtrr, self._feeder = vtrr, feeder
        self._permits: deque[Permit] = deque()
        self._sequels: list[Grant] = []
        self._hungry, self._more = True, False
        self._permit_at, self._unsure_until = time.monotonic(), 0.0
        self.leased_at = 0.0
        self.unanswered: list[str] = []

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
        return (self._vtrr.dispatch == "direct" or self.unsure) and self._consumed

    @property
    def wanting(self) -> bool:
        """Whether it would lease if there were a slot."""
        return bool(self._permits or self.unanswered) or (self._hungry and self.pulling)

    @property
    def holds_permits(self) -> bool:
        """Whether a trigger waits for a slot."""
        return bool(self._permits)

    @property
    def goes_on(self) -> bool:
        """Whether there are grounds for another lease."""
        return bool(self._permits) or self.pulling

    def permit(self, trigger_id: str, acknowledge: Callable[..., None]) -> None:
        """A trigger arrived."""
        self._permit_at = time.monotonic()
        self._permits.append(Permit(trigger_id, acknowledge))

    def hint(self) -> bool:
        """Something became servable; whether it may be pulled."""
        self._hungry = True
        return self.pulling

    def waiting_seen(self) -> None:
        """Items wait; pull them if there are slots and no trigger has come for long."""
        quiet = time.monotonic() - max(self._permit_at, self.leased_at) > QUIET_SECONDS
        if quiet and self._feeder.free_slots() > 0:
            self.doubt_triggers()

    def doubt_triggers(self) -> None:
        """Triggers may be lost: pull until those have left the ledger."""
        if self._vtrr.dispatch == "trigger":
            self._unsure_until = time.monotonic() + self._vtrr.budget.timeout_ms / 1000 + 1

    def forget_permits(self) -> None:
        """Their messages belong to a channel that is gone."""
        self._permits.clear()
        self._sequels.clear()

    def ended(self, grant: Grant) -> None:
        """A run ends: what it was leased on may serve the next, if more is known to wait.

        Its end may also make room under a cap.
        """
        self._hungry = True
        sequel = grant.sequel if self._more else None
        if sequel is not None:
            self._sequels.append(sequel)

    def take(self, room: int) -> list[Grant]:
        """Grounds for so many leases at most."""
        sequels = self._follow_up(room)
        if room <= 0 or not self._feeder.accepting():
            return []
        if self._permits or sequels:
            more = min(room - len(sequels), len(self._permits))
            until = time.monotonic() + TRIGGER_SERVES_SECONDS
            return sequels + [
                Grant(self._permits.popleft(), until, TRIGGER_SERVES - 1) for _ in range(more)
            ]
        if self.unanswered:  # what they hold must not wait for a trigger
            return [Grant(pulled=True) for _ in range(min(room, len(self.unanswered)))]
        if not (self.pulling and self._hungry):
            return []
        self._hungry = False  # before the call: a hint that comes during it must stand
        return [Grant(pulled=True) for _ in range(room)]

    def give_back(self, grants: Iterable[Grant]) -> None:
        """The call did not take place, as far as is known."""
        self._hungry = True
        permits = [grant.permit for grant in grants if grant.permit is not None]
        self._permits.extendleft(reversed(permits))

    def leased(self, group: list[Grant], count: int, waiting: int) -> None:
        """A call was answered.

        Args:
            group: Its grounds.
            count: Items it brought.
            waiting: Items that wait still.
        """
        self._more = waiting > 0
        if group[0].permit is None and count == len(group):
            self._hungry = True
        if count:
            self.leased_at = time.monotonic()

    def tokens(self, count: int) -> list[str]:
        """Tokens for leases, first those of unanswered calls: they may hold something."""
        missing = count - len(self.unanswered)
        if missing > 0:
            self.unanswered += self._vtrr.engine.new_tokens(missing)
        return self.unanswered[:count]

    def answered(self, tokens: list[str]) -> None:
        """What these calls hold is known."""
        self.unanswered = [token for token in self.unanswered if token not in tokens]

    @property
    def _consumed(self) -> bool:
        consumer, name = self._feeder.consumer.task_consumer, self._vtrr.celery_queue
        if consumer is None:
            return False
        queue = self._vtrr.app.amqp.queues.aliases.get(name, name)
        consumed: bool = consumer.consuming_from(queue)
        return consumed

    def _follow_up(self, room: int) -> list[Grant]:
        """What runs that have just ended leave; it is of no use later."""
        sequels, self._sequels = self._sequels, []
        return sequels[: max(0, room)] if sequels and self._consumed else []
