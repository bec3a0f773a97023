"""From single waiting times to figures, and to one sentence about them; pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WORTH_TELLING = 1.2


@dataclass(frozen=True, slots=True)
class Waits:
    """Waiting times of several items, in s.

    Attributes:
        count: How many.
        median: Half of them waited no longer.
        p95: 95 % of them waited no longer (nearest rank).
        longest: None waited longer.
    """

    count: int
    median: float
    p95: float
    longest: float

    @classmethod
    def of(cls, waits: Sequence[float]) -> Waits:
        """Condense waiting times, of which there must be one at least."""
        ordered = sorted(waits)
        rank = math.ceil(0.95 * len(ordered))
        return cls(len(ordered), statistics.median(ordered), ordered[rank - 1], ordered[-1])


@dataclass(frozen=True, slots=True)
class LaneFigures:
    """Figures of one lane.

    Attributes:
        title: Name for people.
        seconds: From the first enqueue to the end of the last item.
        tenants: Tenant -> its waiting times, the flooding one first.
        small: Waiting times of all items of the small tenants together.
    """

    title: str
    seconds: float
    tenants: Mapping[str, Waits]
    small: Waits

    @classmethod
    def of(
        cls,
        title: str,
        seconds: float,
        waits: Mapping[str, Sequence[float]],
        flood: str,
    ) -> LaneFigures:
        """Condense a lane.

        Args:
            title: Name for people.
            seconds: From the first enqueue to the end of the last item.
            waits: Tenant -> waiting times of its items, s.
            flood: Which tenant is not a small one.
        """
        small = [wait for tenant, own in waits.items() if tenant != flood for wait in own]
        tenants = {tenant: Waits.of(own) for tenant, own in waits.items()}
        return cls(title, seconds, tenants, Waits.of(small))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both lanes side by side.

    Attributes:
        plain: Plain Celery.
        fair: vtrr-queue.
        flood: Which tenant floods.
    """

    plain: LaneFigures
    fair: LaneFigures
    flood: str

    @property
    def speed_up(self) -> float:
        """How many times shorter the small tenants' median wait is."""
        return self.plain.small.median / self.fair.small.median

    @property
    def sentence(self) -> str:
        """What the figures mean."""
        if self.speed_up < _WORTH_TELLING:
            return (
                "The small tenants waited about as long in both; a flood as small as this "
                "may not stand in anybody's way, try more --items."
            )
        return (
            f"Plain Celery runs items in the order they came, so the small tenants stood behind "
            f"the flood's {self.plain.tenants[self.flood].count:,} items; vtrr-queue lets every "
            f"tenant take its turn, so their median wait fell from "
            f"{duration(self.plain.small.median)} to {duration(self.fair.small.median)}."
        )

    def figures(self) -> dict[str, Any]:
        """Give everything as plain values, ready for JSON; times in s."""
        return {
            "plain": asdict(self.plain),
            "fair": asdict(self.fair),
            "flood": self.flood,
            "small_tenants_speed_up": self.speed_up,
        }


def duration(seconds: float) -> str:
    """Write a time with about three digits and its unit, such as ``"46 ms"``."""
    if seconds < 0.01:  # noqa: PLR2004
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s"
