"""Settings that say how long a worker may hold an item, and what becomes of one that fails.

Invariant: a wrong value is refused when the queue is made, by name and value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vtrr_queue.celery.entries import check_choice, check_integer, check_number, check_text
from vtrr_queue.errors import ArgumentError, ArgumentTypeError
from vtrr_queue.model import LONGEST_SECONDS, DeadLetterRules, TriggerBudget

OnLeaseLost = Literal["continue", "terminate"]
OnFailure = Literal["drop", "dead"]

RENEWALS = 3
"""A heartbeat renews a lease so often while it lasts, so that two renewals may fail."""

LETTERS_MAX, TIMEOUTS_MAX = 10_000_000, 1_000_000

PREFETCH_MAX = 100

NAME_MAX = 200
"""Longest name of a queue or a Celery queue, and longest token, characters."""


@dataclass(frozen=True, slots=True)
class HoldRules:
    """How long a worker may hold an item.

    Attributes:
        lease_seconds: Lease, s.
        heartbeat_seconds: Pause between two renewals, s; None without heartbeat.
        max_runtime: Age of a run at which its lease is no longer renewed, s; None for no end.
        on_lease_lost: What the worker does with a run whose lease is gone.
    """

    lease_seconds: float
    heartbeat_seconds: float | None = None
    max_runtime: float | None = None
    on_lease_lost: OnLeaseLost = "continue"

    @property
    def longest_run(self) -> float | None:
        """Time after which a run has lost its lease for sure, s; None for never."""
        return self.lease_seconds if self.heartbeat_seconds is None else self.max_runtime


def check_hold(
    lease_seconds: object, heartbeat: object, max_runtime: object, on_lease_lost: object
) -> HoldRules:
    """Check the settings that :class:`HoldRules` holds.

    Args:
        lease_seconds: Lease, s.
        heartbeat: Whether to renew, or the pause between two renewals, s.
        max_runtime: Age of a run at which renewing ends, s, or None.
        on_lease_lost: A word.

    Raises:
        ArgumentError: A value is out of range, or ``max_runtime`` stands without a heartbeat.
        ArgumentTypeError: A type is wrong.
    """
    lease = check_number("lease_seconds", lease_seconds, 0.001, LONGEST_SECONDS)
    if isinstance(heartbeat, bool):
        interval = lease / RENEWALS if heartbeat else None
    elif isinstance(heartbeat, int | float):
        interval = check_number("heartbeat", heartbeat, 0, LONGEST_SECONDS, above=True)
        if interval >= lease:
            expected = f"shorter than lease_seconds ({lease:g}), best a third of it"
            raise ArgumentError("heartbeat", heartbeat, expected)
    else:
        raise ArgumentTypeError("heartbeat", heartbeat, "True, False or a number of seconds")
    longest = None
    if max_runtime is not None:
        longest = check_number("max_runtime", max_runtime, 0, LONGEST_SECONDS, above=True)
        if interval is None:
            expected = "None without heartbeat: the lease itself ends"
            raise ArgumentError("max_runtime", max_runtime, expected)
    check_choice("on_lease_lost", on_lease_lost, ("continue", "terminate"))
    word: OnLeaseLost = "terminate" if on_lease_lost == "terminate" else "continue"
    return HoldRules(lease, interval, longest, word)


def check_dead_letters(
    max_timeouts: object, max_dead_letters: object, dead_letter_seconds: object
) -> DeadLetterRules:
    """Check the settings that say which items are kept as dead letters.

    Args:
        max_timeouts: Timeouts that make a dead letter, or None.
        max_dead_letters: Most letters kept.
        dead_letter_seconds: Longest a letter is kept, s.

    Raises:
        ArgumentError: A value is out of range.
        ArgumentTypeError: A type is wrong.
    """
    timeouts = None
    if max_timeouts is not None:
        timeouts = check_integer("max_timeouts", max_timeouts, 1, TIMEOUTS_MAX)
    letters = check_integer("max_dead_letters", max_dead_letters, 1, LETTERS_MAX)
    age = check_number("dead_letter_seconds", dead_letter_seconds, 0.001, LONGEST_SECONDS)
    return DeadLetterRules(timeouts, letters, age)


def check_reclaim(interval: object, queue: object) -> tuple[float | None, str | None]:
    """Period of the Beat entry that reclaims, s, and the Celery queue of its task."""
    return (
        None
        if interval is None
        else check_number("reclaim_interval", interval, 0, 1e8, above=True),
        None if queue is None else check_text("reclaim_queue", queue, NAME_MAX),
    )


def check_prefetch(prefetch: object, dispatch: str, charge: object) -> int:
    """How many items a worker may take ahead for each slot of its pool.

    Args:
        prefetch: The number.
        dispatch: How workers are woken: with triggers, each stands for one lease.
        charge: What an item costs: what waits in a worker must not pay for it.

    Raises:
        ArgumentError: It is out of range, or stands beside what it does not go with.
        ArgumentTypeError: It is no integer.
    """
    count = check_integer("prefetch", prefetch, 0, PREFETCH_MAX)
    if count and dispatch != "direct":
        raise ArgumentError("prefetch", count, "0 unless dispatch='direct'")
    if count and charge == "runtime":
        expected = "0 with charge='runtime': the time from the lease to the end is charged"
        raise ArgumentError("prefetch", count, expected)
    return count


def trigger_budget(dispatch: str, most: int, timeout: object) -> TriggerBudget:
    """How many triggers may stand, and for how long one counts."""
    age = check_number("trigger_timeout", timeout, 0.1, 1e6)
    return TriggerBudget(0 if dispatch == "direct" else most, round(age * 1000))
