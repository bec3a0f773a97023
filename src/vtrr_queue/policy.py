"""What partitions, and the queue as a whole, may do: shares, caps, rates, holds and pauses.

Invariants: policies are immutable; their text form is that of ``scripts/lib/policy_of.lua``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from vtrr_queue.errors import ArgumentError, ArgumentTypeError
from vtrr_queue.model import SHARE_MAX, SHARE_MIN

if TYPE_CHECKING:
    from collections.abc import Mapping

Charge = Literal["weight", "runtime"]
RateUnit = Literal["items", "weight"]

FIELDS = ("share", "cap", "interval", "tolerance", "by", "backlog", "paused", "hold",
          "max_in_flight", "total_interval", "total_tolerance", "total_by", "charge")  # fmt: skip
"""Words of a policy's text, in order; the last five are the queue's alone."""

OWN_FROM = "paused"
"""From this field on nothing is inherited from the queue's defaults."""

PLAN_POINTS = ("share", "cap", "rate", "max_backlog")
"""Settings that a plan of the app's own may have."""

PARTITION_POINTS = (*PLAN_POINTS, "paused", "hold")
"""All settings of a partition."""

COUNT_MAX = 1_000_000_000
"""Largest cap, burst or backlog bound."""

HOLD_MAX = 1e8
"""Longest hold, s."""

RATE_MIN, RATE_MAX = 1e-6, 1e6
"""Accepted rates, per second."""

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_RATE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(?:/\s*([smhd]))?\s*$")


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a partition, or the queue, may be served.

    Args:
        limit: As Celery's ``rate_limit``: ``"100/m"`` (``s``, ``m``, ``h`` or ``d``), or a number
            per second. The attribute is a number per second.
        burst: How many may be served at once after a pause.
        by: What is counted: ``"items"``, or their ``"weight"``.

    Raises:
        ArgumentError: A value is out of range.
        ArgumentTypeError: A type is wrong.

    Source:
        The generic cell rate algorithm, ITU-T I.371: an item conforms while the theoretical
        arrival time is at most ``burst - 1`` intervals ahead.
    """

    limit: str | float
    burst: int = 1
    by: RateUnit = "items"

    def __post_init__(self) -> None:
        if isinstance(self.limit, bool) or not isinstance(self.limit, str | int | float):
            raise ArgumentTypeError("rate", self.limit, "a text such as '100/m', or a number")
        found = _RATE.match(self.limit) if isinstance(self.limit, str) else None
        if isinstance(self.limit, str) and not found:
            raise ArgumentError("rate", self.limit, "a text such as '100/m'")
        try:
            number = float(found[1] if found else self.limit)
        except OverflowError:
            number = math.inf
        per_second = number / _SECONDS[(found and found[2]) or "s"]
        if not RATE_MIN <= per_second <= RATE_MAX:
            expected = f"from {RATE_MIN:g} to {RATE_MAX:g} per second"
            raise ArgumentError("rate", self.limit, expected)
        _check_count("burst", self.burst)
        if self.by not in ("items", "weight"):
            raise ArgumentError("by", self.by, "'items' or 'weight'")
        object.__setattr__(self, "limit", per_second)

    @property
    def interval_ms(self) -> float:
        """Time between two items, or two of weight, ms."""
        return 1000 / float(self.limit)

    @property
    def tolerance_ms(self) -> float:
        """How far the theoretical arrival time may be ahead, ms."""
        return (self.burst - 1) * self.interval_ms


@dataclass(frozen=True, slots=True)
class Policy:
    """What one partition may do; None leaves a point to the queue's default.

    Attributes:
        share: Turns for each turn of a partition of share 1, 0.01 to 100.
        cap: Most items that run at once; ``math.inf`` for any number.
        rate: How fast items may start; ``math.inf`` for any.
        max_backlog: Most items that wait; ``math.inf`` for any number.
        paused: Nothing of it starts.
        held_until_ms: Nothing of it starts before this time, server clock, ms since the epoch.
    """

    share: float | None = None
    cap: float | None = None
    rate: Rate | float | None = None
    max_backlog: float | None = None
    paused: bool = False
    held_until_ms: int | None = None


def policy_words(settings: Mapping[str, object]) -> dict[str, str]:
    """Check the settings of a policy and put them into words.

    Args:
        settings: Any of ``share``, ``cap``, ``rate``, ``max_backlog``, ``paused``, ``hold`` (s from
            now), and for the queue ``max_in_flight``, ``total_rate`` and ``charge``; None leaves a
            point to the default.

    Returns:
        Field of :data:`FIELDS` -> word.

    Raises:
        ArgumentError: A value is out of range, or the setting is none of these.
        ArgumentTypeError: A type is wrong.
    """
    words: dict[str, str] = {}
    for name, value in settings.items():
        if name in {"rate", "total_rate"}:
            words |= _rate_words("total_" if name == "total_rate" else "", value)
        elif name in _WORDS:
            field, word = _WORDS[name]
            words[field] = "-" if value is None else word(name, value)
        else:
            raise ArgumentError("policy", name, f"one of {', '.join((*_WORDS, 'rate'))}")
    return words


_LIMITS = {
    "default_share": "share", "default_cap": "cap", "default_rate": "rate",
    "max_backlog": "max_backlog", "max_in_flight": "max_in_flight", "max_rate": "total_rate",
    "charge": "charge",
}  # fmt: skip


def check_limits(**limits: object) -> dict[str, object]:
    """Check a queue's defaults and limits.

    Args:
        **limits: ``charge``, ``default_share``, ``default_cap``, ``default_rate``,
            ``max_in_flight``, ``max_rate`` and ``max_backlog``.

    Returns:
        Settings for :func:`policy_words`, all of them.

    Raises:
        ArgumentError: A value is out of range.
        ArgumentTypeError: A type is wrong.
    """
    settings = {point: limits.get(name) for name, point in _LIMITS.items()}
    for name, point in _LIMITS.items():
        try:
            policy_words({point: settings[point]})
        except ArgumentTypeError as exc:
            raise ArgumentTypeError(name, exc.value, exc.expected) from exc
        except ArgumentError as exc:
            raise ArgumentError(name, exc.value, exc.expected) from exc
    return settings


def read_policy(text: bytes | None) -> Policy:
    """Take a policy's text apart; what is open is None."""
    words = dict(zip(FIELDS, (text or b"").decode().split(), strict=False))
    numbers = {field: float(word) for field, word in words.items()
               if word != "-" and field not in {"by", "total_by", "charge"}}  # fmt: skip
    hold = numbers.get("hold")
    return Policy(
        share=numbers.get("share"),
        cap=_bound(numbers.get("cap")),
        rate=_rate(numbers, words),
        max_backlog=_bound(numbers.get("backlog")),
        paused=numbers.get("paused") == 1,
        held_until_ms=int(hold) if hold else None,
    )


def _rate(numbers: Mapping[str, float], words: Mapping[str, str]) -> Rate | float | None:
    interval = numbers.get("interval")
    if not interval:
        return None if interval is None else math.inf
    burst = 1 + round(numbers.get("tolerance", 0) / interval)
    by: RateUnit = "weight" if words.get("by") == "weight" else "items"
    return Rate(1000 / interval, burst, by)


def _bound(number: float | None) -> float | None:
    return math.inf if number == 0 else number


def _rate_words(prefix: str, value: object) -> dict[str, str]:
    words: tuple[str, str, str] = ("-", "-", "-")
    if value == math.inf:
        words = ("0", "-", "-")
    elif value is not None:
        rate = value if isinstance(value, Rate) else Rate(cast("str | float", value))
        words = (repr(rate.interval_ms), repr(rate.tolerance_ms), rate.by)
    fields = ("interval", "tolerance", "by")
    return {f"{prefix}{field}": word for field, word in zip(fields, words, strict=True)}


def _share(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentTypeError(name, value, "a number")
    if not SHARE_MIN <= value <= SHARE_MAX:
        raise ArgumentError(name, value, f"from {SHARE_MIN:g} to {SHARE_MAX:g}")
    return repr(float(value))


def _count(name: str, value: object) -> str:
    return "0" if value == math.inf else str(_check_count(name, value))


def _check_count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(name, value, "an integer")
    if not 1 <= value <= COUNT_MAX:
        raise ArgumentError(name, value, f"from 1 to {COUNT_MAX}")
    return value


def _switch(name: str, value: object) -> str:
    if not isinstance(value, bool):
        raise ArgumentTypeError(name, value, "True or False")
    return "1" if value else "-"


def _hold(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentTypeError(name, value, "a number")
    if not 0 <= value <= HOLD_MAX:
        raise ArgumentError(name, value, f"from 0 to {HOLD_MAX:g}")
    return str(math.ceil(value * 1000))


def _charge(name: str, value: object) -> str:
    if value not in ("weight", "runtime"):
        raise ArgumentError(name, value, "'weight' or 'runtime'")
    return "-" if value == "weight" else "runtime"


_WORDS = {
    "share": ("share", _share),
    "cap": ("cap", _count),
    "max_backlog": ("backlog", _count),
    "paused": ("paused", _switch),
    "hold": ("hold", _hold),
    "max_in_flight": ("max_in_flight", _count),
    "charge": ("charge", _charge),
}
