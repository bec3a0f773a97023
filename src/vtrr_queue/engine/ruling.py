"""Policies, pauses, holds, cancels and purges: what people decide about partitions and items."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from vtrr_queue.engine.base import NO_TRIGGERS, EngineBase
from vtrr_queue.errors import ArgumentError
from vtrr_queue.model import PRIORITY_MAX, Cancelled
from vtrr_queue.policy import PARTITION_POINTS, Policy, policy_words, read_policy
from vtrr_queue.records import (
    pack_id,
    read_held_lease,
    read_record,
    read_wake,
    trigger_arguments,
    unpack_id,
)
from vtrr_queue.talk import Reads, calling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vtrr_queue.model import TriggerBudget, Wake
    from vtrr_queue.talk import Reply, Steps

PURGED_AT_ONCE = 500
"""Most ids one purge script takes, so that it blocks the server for about a millisecond."""

CANCELLED_AT_ONCE = 200
"""Most ids one cancel script takes."""


class Ruling(EngineBase):
    """What people call who look after partitions."""

    def declare(self, *, anyway: bool = False) -> None:
        """Store the queue's defaults and limits, once in the life of this engine.

        Args:
            anyway: Also when none is set, so that those of an earlier deployment end; workers do
                this as they start.
        """
        self.client.run(self.declaring(anyway=anyway))

    def declaring(self, *, anyway: bool = False) -> Steps[None]:
        """The steps of :meth:`declare`."""
        is_set = any(value not in {None, "weight"} for value in self.limits.values())
        if self._declared and anyway and is_set:
            (kept,) = yield Reads([("HEXISTS", self.keys["policy"], "")])
            self._declared = bool(kept)  # the server may have lost everything
        if not self._declared and (is_set or (anyway and self.limits)):
            yield from self.setting_policy("", budget=NO_TRIGGERS, **self.limits)
            self._declared = True

    def set_policy(
        self, partition: str, *, budget: TriggerBudget = NO_TRIGGERS, **settings: object
    ) -> Wake:
        """Change what a partition may do; it acts at the next lease.

        Args:
            partition: The partition; empty for the queue's defaults and its own limits.
            budget: How many triggers may stand.
            **settings: See :func:`vtrr_queue.policy.policy_words`; those left out stay.

        Returns:
            Triggers to publish and when to come again.

        Raises:
            ArgumentError: A value is out of range.
            ArgumentTypeError: A type is wrong.

        Source:
            ``scripts/set_policy.lua``; O(log partitions) however much waits.
        """
        return self.client.run(self.setting_policy(partition, budget=budget, **settings))

    def setting_policy(
        self, partition: str, *, budget: TriggerBudget = NO_TRIGGERS, **settings: object
    ) -> Steps[Wake]:
        """The steps of :meth:`set_policy`."""
        changes = [word for pair in policy_words(settings).items() for word in pair]
        triggers = trigger_arguments(budget)
        hint = "ready" if self._ready_channel else "later"
        rest = (partition, triggers[0], self._later_channel, hint, *changes)
        reply = yield from self._scripting("set_policy", *rest)
        if reply[0] == "policy":
            raise ArgumentError(reply[6].decode(), reply[7], "a setting this release knows")
        return read_wake(reply, triggers[1])

    def clear_policy(self, partition: str, *, budget: TriggerBudget = NO_TRIGGERS) -> Wake:
        """Leave everything about a partition to the queue's defaults."""
        return self.set_policy(partition, budget=budget, **dict.fromkeys(PARTITION_POINTS))

    def policy(self, partition: str) -> Policy:
        """What was set for a partition, or as the queue's defaults (empty name)."""
        (text,) = self.client.read(("HGET", self.keys["policy"], partition))
        return read_policy(text)

    def purge(self, partition: str) -> int:
        """Forget what waits in the backlog of a partition now.

        Returns:
            How many items went.

        Source:
            ``scripts/purge.lua``, as often as it takes; what is enqueued meanwhile may stay.
        """
        lists = [self.keys.backlog(partition, level) for level in range(PRIORITY_MAX + 1)]
        left = sum(self.client.read(*(("LLEN", name) for name in lists)))
        total = 0
        while left > 0:
            most = min(left, PURGED_AT_ONCE)
            reply = self._script("purge", partition, most)
            total, taken = total + int(reply[6]), int(reply[7])
            left = left - taken if taken else 0
        return total

    def cancel(self, item_ids: Sequence[str]) -> Cancelled:
        """Cancel items by id: what waits goes at once, what runs is marked and does not run again.

        Args:
            item_ids: Their ids; unknown ones are passed over.

        Source:
            ``scripts/cancel.lua``.
        """
        waiting: list[str] = []
        running: list[str] = []
        for at in range(0, len(item_ids), CANCELLED_AT_ONCE):
            reply = self._script("cancel", *map(pack_id, item_ids[at : at + CANCELLED_AT_ONCE]))
            for item_id, state in zip(reply[6::2], reply[7::2], strict=True):
                (running if state == b"running" else waiting).append(unpack_id(item_id))
        return Cancelled(tuple(waiting), tuple(running))

    def running_of(self, partition: str) -> list[str]:
        """Ids of the items of a partition that run."""
        (texts,) = self.client.read(("HGETALL", self.keys["lease"]))
        leases = (read_held_lease(*texts[at : at + 2]) for at in range(0, len(texts), 2))
        return [lease.item_id for lease in leases if lease.partition == partition]

    def delayed_of(self, partition: str, most: int) -> Iterator[list[str]]:
        """Ids of the items of a partition that wait for their time, so many looked at at once."""
        cursor = b"0"
        while True:
            ((cursor, found),) = self.client.read(
                ("ZSCAN", self.keys["delayed"], cursor, "COUNT", most)
            )
            ids = found[::2]
            records = self.client.read(("HMGET", self.keys["task"], *ids))[0] if ids else []
            yield [unpack_id(item_id) for item_id, text in zip(ids, records, strict=True)
                   if text and read_record(text)[0] == partition]  # fmt: skip
            if cursor == b"0":
                return

    def is_cancelled(self, item_id: str) -> bool:
        """Whether a running item was cancelled."""
        (found,) = self.client.read(("HEXISTS", self.keys["cancelled"], pack_id(item_id)))
        return bool(found)

    def _script(self, name: str, *rest: object) -> Reply:
        return self.client.run(self._scripting(name, *rest))

    def _scripting(self, name: str, *rest: object) -> Steps[Reply]:
        reply = yield from calling(name, secrets.token_hex(8), lambda attempt: (attempt, *rest))
        return self._check(reply)
