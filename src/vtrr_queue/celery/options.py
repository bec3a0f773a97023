"""Options of ``@vtrr.task``: which there are, and which values they take.

Invariant: a wrong option is refused at decoration, by name and value. Celery itself would find out
when the app is finalized, or at an item's first retry.
"""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

from celery.app.task import Task
from kombu.compression import get_encoder

from vtrr_queue.celery.entries import (
    PARTITION_MAX,
    check_integer,
    check_kwargs,
    check_number,
    check_text,
)
from vtrr_queue.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vtrr_queue.celery.settings import HoldRules

_COMPRESSIONS = ("brotli", "bzip2", "gzip", "lzma", "zlib", "zstd")  # some need a package

RETRIES_MAX = 1_000_000
OPTION_TEXT_MAX = 200


def check_options(options: Mapping[str, Any]) -> None:
    """Check names and values.

    Args:
        options: What stands in the decorator.

    Raises:
        TypeError: An option is not allowed; it names the option and lists the allowed ones.
        ArgumentError: A value is out of range.
        ArgumentTypeError: A value has the wrong type.
    """
    for option in options:
        if option not in TASK_OPTIONS:
            allowed = ", ".join(TASK_OPTIONS)
            message = f"task() got an option {option!r} it does not know; allowed: {allowed}"
            raise TypeError(message)
    for option, value in options.items():
        if value is not None or option not in _MAY_BE_NONE:
            _CHECKS[option](option, value)


def check_compression(argument: str, value: Any) -> None:
    """A compression that kombu knows.

    Raises:
        ArgumentError: It knows others.
    """
    if not _is_compression(value):
        names = ", ".join(filter(_is_compression, _COMPRESSIONS))
        raise ArgumentError(argument, value, f"a compression that kombu knows ({names})")


def _is_compression(value: Any) -> bool:
    try:
        return bool(get_encoder(value))
    except (KeyError, TypeError):
        return False


def check_hard_limit(hard: float | None, hold: HoldRules) -> None:
    """A process must be dead before its lease ends.

    Args:
        hard: Hard time limit, s.
        hold: How long a worker may hold an item.

    Raises:
        ArgumentError: The limit is not shorter than the lease, or than ``max_runtime`` when the
            lease is renewed.
    """
    longest = hold.longest_run
    if hard is not None and longest is not None and hard >= longest:
        name = "lease_seconds" if hold.heartbeat_seconds is None else "max_runtime"
        expected = f"less than {name} ({longest:g}), or the item would run twice"
        raise ArgumentError("time_limit", hard, expected)


def check_order(queue: str, soft: float | None, hard: float | None, hold: HoldRules) -> None:
    """Refuse a hard limit beyond the lease, and warn of limits that are out of order.

    Args:
        queue: Name of the queue.
        soft: Soft time limit, s.
        hard: Hard time limit, s.
        hold: How long a worker may hold an item.

    Raises:
        ArgumentError: As :func:`check_hard_limit`.
    """
    check_hard_limit(hard, hold)
    shown = {"soft_time_limit": soft, "time_limit": hard, "lease_seconds": hold.lease_seconds}
    if hold.heartbeat_seconds is not None:  # a renewed lease has no end, or this one
        del shown["lease_seconds"]
        shown |= {"max_runtime": hold.max_runtime} if hold.max_runtime else {}
    limits = [value for value in shown.values() if value is not None]
    if any(a >= b for a, b in itertools.pairwise(limits)):
        order = " < ".join(
            f"{name} ({'None' if value is None else format(value, 'g')})"
            for name, value in shown.items()
        )
        warnings.warn(f"queue {queue!r}: {order} does not hold", UserWarning, stacklevel=4)


def _base(option: str, value: object) -> None:
    if not (isinstance(value, type) and issubclass(value, Task)):
        raise ArgumentTypeError(option, value, "a subclass of celery.Task")


def _retries(option: str, value: object) -> None:
    check_integer(option, value, 0, RETRIES_MAX)


def _seconds(option: str, value: object) -> None:
    check_number(option, value, 0)


def _limit(option: str, value: object) -> None:
    check_number(option, value, 0, above=True)


def _backoff(option: str, value: object) -> None:
    if not isinstance(value, bool):
        check_number(option, value, 0)


def _switch(option: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ArgumentTypeError(option, value, "True or False")


def _function(option: str, value: object) -> None:
    if not callable(value):
        raise ArgumentTypeError(option, value, "a function of the task's arguments")


def _partition(option: str, value: object) -> None:
    check_text(option, value, PARTITION_MAX)


def _text(option: str, value: object) -> None:
    check_text(option, value, OPTION_TEXT_MAX)


def _compression(option: str, value: object) -> None:
    check_text(option, value, OPTION_TEXT_MAX)
    check_compression(option, value)


def _exceptions(option: str, value: object) -> None:
    listed = value if isinstance(value, list | tuple) else [None]
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in listed):
        raise ArgumentTypeError(option, value, "a tuple of exception classes")


_CHECKS: dict[str, Callable[[str, object], object]] = {
    "base": _base,
    "max_retries": _retries,
    "default_retry_delay": _seconds,
    "autoretry_for": _exceptions,
    "retry_backoff": _backoff,
    "retry_backoff_max": _seconds,
    "retry_jitter": _switch,
    "retry_kwargs": check_kwargs,
    "soft_time_limit": _limit,
    "time_limit": _limit,
    "acks_late": _switch,
    "reject_on_worker_lost": _switch,
    "ignore_result": _switch,
    "track_started": _switch,
    "serializer": _text,
    "compression": _compression,
    "partition_by": _function,
    "default_partition": _partition,
}

_MAY_BE_NONE = {
    "base", "max_retries", "default_retry_delay", "soft_time_limit", "time_limit", "acks_late",
    "reject_on_worker_lost", "ignore_result", "track_started", "serializer", "compression",
    "partition_by",
    "default_partition",
}  # fmt: skip

TASK_OPTIONS = tuple(_CHECKS)
"""Options ``@vtrr.task`` accepts; ``bind`` is accepted and ignored."""
