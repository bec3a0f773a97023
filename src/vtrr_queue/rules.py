"""Policies, rates and holds of the reference scheduler: what a partition may do and when.

Invariant: the arithmetic is that of ``scripts/lib``, in the same order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vtrr_queue.scores import Scores

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN: dict[str, float | str] = {
    "share": 1.0, "cap": 0.0, "interval": 0.0, "tolerance": 0.0, "by": "items", "backlog": 0.0,
    "paused": 0.0, "hold": 0.0, "max_in_flight": 0.0, "total_interval": 0.0,
    "total_tolerance": 0.0, "total_by": "items",
}  # fmt: skip
"""What holds where nothing is set; a limit of 0 is none."""

INHERITED = frozenset({"share", "cap", "interval", "tolerance", "by", "backlog"})
"""Points on which the queue has defaults for its partitions."""


class Rules:
    """What partitions may do.

    Attributes:
        policies: Partition -> point -> value; "" has the queue's defaults and its own limits.
        arrivals: Partition -> theoretical arrival time, ms (GCRA); "" for the queue.
        parked: Partition -> time at which it wakes, ms; "" for the queue.
    """

    def __init__(self) -> None:
        self.policies: dict[str, dict[str, float | str]] = {}
        self.arrivals: dict[str, float] = {}
        self.parked: Scores[float] = Scores()

    def number(self, partition: str, point: str) -> float:
        """One point of a partition's policy."""
        return float(self._value(partition, point))

    def change(self, partition: str, words: Mapping[str, str], now_ms: int) -> None:
        """Set points from the words of :func:`vtrr_queue.policy.policy_words`."""
        policy = self.policies.setdefault(partition, {})
        for point, word in words.items():
            value: float | str = word
            if word != "-" and point not in {"by", "total_by", "charge"}:
                value = float(word)
            if point == "hold" and word != "-":
                value = now_ms + float(word) if float(word) > 0 else "-"
            policy[point] = value
            if value == "-":
                del policy[point]
        if not policy:
            del self.policies[partition]

    def is_free(self, partition: str, running: int, now_ms: int) -> bool:
        """Whether a partition may be served; one that must wait for a time is parked."""
        cap = self.number(partition, "cap")
        if self.number(partition, "paused") or (cap and running >= cap):
            return False
        return not self._waits(partition, "", now_ms)

    def room(self, leased: int, now_ms: int, *, servable: int) -> float:
        """How many more items the queue may lease, of so many servable partitions."""
        if self.number("", "paused") or self._waits("", "total_", now_ms, parks=servable > 0):
            return 0
        most = self.number("", "max_in_flight")
        return most - leased if most else math.inf

    def spend(self, partition: str, weight: float, now_ms: int) -> None:
        """Count a serve against the partition's rate and the queue's."""
        for name, prefix in ((partition, ""), ("", "total_")):
            interval = self.number(name, f"{prefix}interval")
            if interval:
                by_weight = self._value(name, f"{prefix}by") == "weight"
                arrival = max(now_ms, self._arrival(name, prefix, now_ms))
                self.arrivals[name] = arrival + interval * (weight if by_weight else 1)

    def wake(self, now_ms: int, most: int) -> list[str]:
        """Take out the partitions whose time has come, and forget holds that are over."""
        due = self.parked.take(now_ms, most)
        for partition in due:
            hold = self.number(partition, "hold")
            if partition and hold and hold <= now_ms:
                del self.policies[partition]["hold"]
                if not self.policies[partition]:
                    del self.policies[partition]
        return due

    def _waits(self, name: str, prefix: str, now_ms: int, *, parks: bool = True) -> bool:
        wake = self.number(name, "hold")
        if self.number(name, f"{prefix}interval"):
            tolerance = self.number(name, f"{prefix}tolerance")
            wake = max(wake, self._arrival(name, prefix, now_ms) - tolerance)
        if wake > now_ms and parks:
            self.parked.set(name, math.ceil(wake))
        return wake > now_ms

    def _arrival(self, name: str, prefix: str, now_ms: int) -> float:
        found = self.arrivals.get(name, 0.0)
        if self._value(name, f"{prefix}by") == "weight":
            return found
        most = now_ms + self.number(name, f"{prefix}tolerance")
        most += self.number(name, f"{prefix}interval")
        if found > most:
            self.arrivals[name] = found = most
        return found

    def _value(self, partition: str, point: str) -> float | str:
        own = self.policies.get(partition, {})
        if point not in own and point in INHERITED:
            own = self.policies.get("", {})
        return own.get(point, PLAIN[point])
