"""What people decide about partitions: policies, holds, pauses, cancels and purges.

Invariant: every decision is kept in Redis and acts at the next lease of any worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from vtrr_queue.celery.entries import ID_MAX, PARTITION_MAX, check_text
from vtrr_queue.errors import ArgumentError, ArgumentTypeError
from vtrr_queue.model import Cancelled
from vtrr_queue.policy import PLAN_POINTS, policy_words
from vtrr_queue.talk import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtrr_queue.engine import Engine
    from vtrr_queue.model import TriggerBudget, Wake
    from vtrr_queue.policy import Policy
    from vtrr_queue.talk import Steps

    PolicySource = Callable[[str], Mapping[str, Any] | None]

REMEMBERED = 10_000
"""Partitions whose policy, as the callable gave it, a process remembers."""

DELAYED_AT_ONCE = 500
"""Delayed items that one step of a purge looks at."""

_UNSET: Any = object()


def check_policy(policy: PolicySource | None) -> PolicySource | None:
    """The app's own source of policies.

    Raises:
        ArgumentTypeError: It is no function.
    """
    if policy is not None and not callable(policy):
        raise ArgumentTypeError("policy", policy, "a function of the partition")
    return policy


class Controls:
    """The part of :class:`~vtrr_queue.VTRRQueue` that looks after partitions."""

    engine: Engine
    budget: TriggerBudget
    _policy_source: PolicySource | None
    _given: dict[str, dict[str, str]]

    def send_triggers(self, wake: Wake) -> None:
        """Publish what a script asked for; the queue does."""
        raise NotImplementedError

    def set_partition(
        self, name: str, *, share: float | None = _UNSET, cap: float | None = _UNSET,
        rate: Any = _UNSET, max_backlog: float | None = _UNSET, paused: bool = _UNSET,
    ) -> None:  # fmt: skip
        """Change what a partition may do; it acts at the next lease, on its backlog too.

        Args:
            name: The partition; it need not have items.
            share: Turns for each turn of a partition of share 1, 0.01 to 100.
            cap: Most items of it that run at once.
            rate: How fast its items may start: a :class:`~vtrr_queue.Rate` or ``"100/m"``.
            max_backlog: Most items of it that may wait; an enqueue beyond raises ``BacklogFull``.
            paused: Whether it is served at all.

        What is left out stays as it is; None goes back to the queue's default; ``math.inf`` takes
        a default cap, rate or backlog bound away from this partition.

        Raises:
            ArgumentError: A value is out of range.
            ArgumentTypeError: A type is wrong.

        Source:
            ``scripts/set_policy.lua``; O(log partitions) however much waits.
        """
        given = {"share": share, "cap": cap, "rate": rate, "max_backlog": max_backlog,
                 "paused": paused}  # fmt: skip
        settings = {point: value for point, value in given.items() if value is not _UNSET}
        self._set(check_text("name", name, PARTITION_MAX), **settings)

    def get_partition(self, name: str) -> Policy:
        """What was set for a partition; None where the queue's default holds."""
        return self.engine.policy(check_text("name", name, PARTITION_MAX))

    def clear_partition(self, name: str) -> None:
        """Take back everything that was set for a partition; its items stay."""
        check_text("name", name, PARTITION_MAX)
        self.send_triggers(self.engine.clear_policy(name, budget=self.budget))

    def hold(self, partition: str | None, seconds: float) -> None:
        """Start nothing of a partition for a while, as when its upstream says 429.

        Args:
            partition: The partition; None for the whole queue.
            seconds: From now, server clock; 0 ends a hold.
        """
        if seconds is None:
            raise ArgumentTypeError("hold", seconds, "a number")
        self._set(self._name(partition), hold=seconds)

    def pause(self, partition: str | None = None) -> None:
        """Start nothing of a partition, or of the whole queue, until it is resumed."""
        self._set(self._name(partition), paused=True)

    def resume(self, partition: str | None = None) -> None:
        """End a pause."""
        self._set(self._name(partition), paused=False)

    def cancel(
        self, item_ids: str | Sequence[str] = (), *, partition: str | None = None
    ) -> Cancelled:
        """Take items back: what waits never starts, what runs goes on and does not run again.

        A function can ask ``self.request.vtrr_cancelled()`` and return.

        Args:
            item_ids: One id or several; those that are neither waiting nor running are passed over.
            partition: Cancel everything of this partition as well.

        Returns:
            The ids; those of a partition's backlog are counted and not named.
        """
        ids = [item_ids] if isinstance(item_ids, str) else item_ids
        if not isinstance(ids, list | tuple):
            raise ArgumentTypeError("item_ids", ids, "an id, or a list of ids")
        for at, item_id in enumerate(ids):
            check_text(f"item_ids[{at}]", item_id, ID_MAX)
        if partition is not None:
            check_text("partition", partition, PARTITION_MAX)
        done, backlog = [self.engine.cancel(ids)], 0
        if partition is not None:  # an item may move meanwhile: what runs goes first, and again
            done.append(self.engine.cancel(self.engine.running_of(partition)))
            backlog = self.engine.purge(partition)
            done.append(self.engine.cancel(self.engine.running_of(partition)))
            done += map(self.engine.cancel, self.engine.delayed_of(partition, DELAYED_AT_ONCE))
        return Cancelled(
            tuple(item_id for each in done for item_id in each.waiting),
            tuple(dict.fromkeys(item_id for each in done for item_id in each.running)),
            backlog,
        )

    def purge(self, partition: str) -> int:
        """Forget all items of a partition that wait, those with a countdown too.

        Returns:
            How many there were.

        Source:
            ``scripts/purge.lua``, 500 items at a time.
        """
        check_text("partition", partition, PARTITION_MAX)
        total = self.engine.purge(partition)
        for ids in self.engine.delayed_of(partition, DELAYED_AT_ONCE):
            total += len(self.engine.cancel(ids).waiting)
        return total

    def _set(self, partition: str, **settings: Any) -> None:
        self.send_triggers(self.engine.set_policy(partition, budget=self.budget, **settings))

    def _name(self, partition: str | None) -> str:
        return "" if partition is None else check_text("partition", partition, PARTITION_MAX)

    def _applying_policy(self, partition: str) -> Steps[None]:
        """Ask the app's callable and store what has changed since this process asked last."""
        if self._policy_source is None:
            return
        settings = yield Work(partial(self._policy_source, partition))
        if settings is None:
            settings = {}
        if not isinstance(settings, Mapping):
            raise ArgumentTypeError("policy", settings, "a dict, or None")
        for point in settings:
            if point not in PLAN_POINTS:
                raise ArgumentError("policy", point, f"one of {', '.join(PLAN_POINTS)}")
        words = policy_words(settings)
        if self._given.get(partition) != words:
            plan = dict.fromkeys(PLAN_POINTS) | dict(settings)
            wake = yield from self.engine.setting_policy(partition, budget=self.budget, **plan)
            self.send_triggers(wake)
            if len(self._given) >= REMEMBERED:
                self._given.clear()
            self._given[partition] = words
