"""Read-only views on a queue: depth, partitions, leases, dead letters, audit.

Invariants: nothing is written; the numbers of one view belong to one moment, because they are
read in one transaction. Only :meth:`Inspector.audit` needs two steps, as it must find the
backlogs first, so it is exact while no script runs in between.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtrr_queue.audit import at_once, pairs, read_stored, violations
from vtrr_queue.dead import DeadLetters
from vtrr_queue.doctor import Finding, examine_server
from vtrr_queue.model import PRIORITY_DEFAULT, WEIGHT_MAX
from vtrr_queue.policy import read_policy
from vtrr_queue.records import HeldLease, read_held_lease
from vtrr_queue.stats import read_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vtrr_queue.engine import Engine
    from vtrr_queue.model import DeadLetter
    from vtrr_queue.stats import Statistics


SMALL = 1000
"""Items or partitions that are read at one moment even by a gentle audit."""

GENTLE_READINGS = 4
"""A violation that so many readings find is one."""


@dataclass(frozen=True, slots=True)
class Depth:
    """How much there is.

    Attributes:
        waiting: Items in the backlogs.
        delayed: Items whose time has not come.
        running: Leases held.
        dead: Dead letters.
        partitions: Partitions that may be served now.
        triggers: Outstanding triggers.
    """

    waiting: int
    delayed: int
    running: int
    dead: int
    partitions: int
    triggers: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition with something waiting or running.

    Attributes:
        name: The partition.
        waiting: Items in its backlogs, of all priorities.
        running: Leases held.
        start_tag: Its place in virtual time; None when it waits for nothing and owes nothing.
    """

    name: str
    waiting: int
    running: int
    start_tag: float | None


class Inspector:
    """Views on the queue of an engine.

    Args:
        engine: Its connection and its key names are used.
    """

    def __init__(self, engine: Engine) -> None:
        self.client, self.keys = engine.client, engine.keys
        self._dead = DeadLetters(engine)

    def depth(self) -> Depth:
        """Count what waits, runs and is dead."""
        task, delayed, running, dead, partitions, triggers = self._at_once(
            ("HLEN", self.keys["task"]),
            ("ZCARD", self.keys["delayed"]),
            ("ZCARD", self.keys["inflight"]),
            ("HLEN", self.keys["dead"]),
            ("ZCARD", self.keys["queue"]),
            ("ZCARD", self.keys["triggers"]),
        )
        return Depth(task - delayed - running, delayed, running, dead, partitions, triggers)

    def partitions(self, limit: int = 100) -> list[PartitionState]:
        """Partitions with something waiting or running.

        Args:
            limit: Most partitions to return.

        Returns:
            List in the order in which they will be served; then those that are held or limited,
            the first to wake first, those that are paused, and those that only run or are at
            their cap.
        """
        tags, parked, policies, held = self._at_once(
            ("ZRANGE", self.keys["queue"], 0, limit - 1, "WITHSCORES"),
            ("ZRANGE", self.keys["parked"], 0, limit),
            ("HGETALL", self.keys["policy"]),
            ("HGETALL", self.keys["lease"]),
        )
        names = [name for name, _ in pairs(tags)] + [name.decode() for name in parked]
        names += sorted(name for name, text in pairs(policies) if read_policy(text).paused)
        names += sorted(_running(held))
        names = [name for name in dict.fromkeys(names) if name]  # "" is the queue itself
        levels = self._levels(names)
        held, *found = self._at_once(
            ("HGETALL", self.keys["lease"]),
            *(command for name in names for command in self._look_at(name, levels[name])),
        )
        running, replies = _running(held), iter(found)
        states = [_state(name, running[name], replies, len(levels[name])) for name in names]
        return [state for state in states if state.waiting or state.running][:limit]

    def leases(self, limit: int = 1000) -> list[HeldLease]:
        """Leases held, the next to expire first.

        Args:
            limit: Most leases to return.
        """
        (tokens,) = self._at_once(("ZRANGE", self.keys["inflight"], 0, limit - 1))
        if not tokens:
            return []
        (texts,) = self._at_once(("HMGET", self.keys["lease"], *tokens))
        held = zip(tokens, texts, strict=True)
        return [read_held_lease(token, text) for token, text in held if text]

    def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """Items kept for good, the latest first.

        Args:
            limit: Most letters to return.
        """
        return self._dead.latest(limit)

    def audit(self, largest_charge: float = WEIGHT_MAX, *, gently: bool = False) -> list[str]:
        """Check the design's invariants on what is stored.

        Args:
            largest_charge: Most that one item may have been charged.
            gently: Read a large queue in small pieces, which keeps the server for a millisecond
                at most, and name what several readings find. What changes between two pieces
                looks wrong once, so on a busy queue that may take some readings.

        Returns:
            One sentence a violation, each begins with the invariant's number; empty when all
            hold. On a queue in use a violation counts when a second audit finds it too.

        Source:
            docs/design/fairness.md; I1, I3 to I6, I12 and I13 say something about a history and
            are tested, not audited.
        """
        if not gently or self._is_small():
            return violations(read_stored(self.client, self.keys), largest_charge)
        found: list[str] = []
        for reading in range(GENTLE_READINGS):
            stored = read_stored(self.client, self.keys, in_pieces=True)
            seen = violations(stored, largest_charge)
            found = seen if reading == 0 else [each for each in found if each in set(seen)]
            if not found:
                break
        return found

    def _is_small(self) -> bool:
        depth = self.depth()
        held = depth.waiting + depth.delayed + depth.running + depth.dead
        return max(held, depth.partitions) <= SMALL

    def statistics(self) -> Statistics:
        """What the queue's workers have done; all zero while none keeps statistics."""
        return read_statistics(self.client, self.keys)

    def doctor(self) -> list[Finding]:
        """Look for settings that put the queue at risk.

        Returns:
            Findings, worst first; empty when all is well.

        Source:
            docs/doctor.md lists all of them.
        """
        return examine_server(self.client, self.keys)

    def _levels(self, names: Sequence[str]) -> dict[str, str]:
        """Priorities in use other than the default, of each partition."""
        if not names:
            return {}
        (found,) = self._at_once(("HMGET", self.keys["levels"], *names))
        return {name: (text or b"").decode() for name, text in zip(names, found, strict=True)}

    def _look_at(self, name: str, levels: str) -> Iterator[tuple[Any, ...]]:
        yield ("ZSCORE", self.keys["queue"], name)
        yield ("ZSCORE", self.keys["partition_virtual_time"], name)
        yield ("HGET", self.keys["holes"], name)
        for priority in (PRIORITY_DEFAULT, *map(int, levels)):
            yield ("LLEN", self.keys.backlog(name, priority))

    def _at_once(self, *commands: Sequence[Any]) -> list[Any]:
        return at_once(self.client, *commands)


def _running(held: list[bytes]) -> Counter[str]:
    return Counter(read_held_lease(token.encode(), text).partition for token, text in pairs(held))


def _state(name: str, running: int, replies: Iterator[Any], levels: int) -> PartitionState:
    """Reads what :meth:`Inspector._look_at` asked for."""
    tag, debt, holes = next(replies), next(replies), next(replies)
    waiting = sum(next(replies) for _ in range(1 + levels)) - int(holes or 0)
    return PartitionState(name, max(0, waiting), running, _number(tag or debt))


def _number(text: bytes | None) -> float | None:
    return None if text is None else float(text)
