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
from vtrr_queue.model import WEIGHT_MAX
from vtrr_queue.records import HeldLease, read_held_lease
from vtrr_queue.stats import read_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vtrr_queue.engine import Engine
    from vtrr_queue.model import DeadLetter
    from vtrr_queue.stats import Statistics


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
        waiting: Items in its backlog.
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
            List in the order in which they will be served; those that only run come last.
        """
        tags, held = self._at_once(
            ("ZRANGE", self.keys["queue"], 0, limit - 1, "WITHSCORES"),
            ("HGETALL", self.keys["lease"]),
        )
        running = _running(held)
        served_next = [name for name, _ in pairs(tags)]
        names = (served_next + sorted(running.keys() - set(served_next)))[:limit]
        held, *found = self._at_once(
            ("HGETALL", self.keys["lease"]),
            *(command for name in names for command in (
                ("LLEN", self.keys.backlog(name)),
                ("ZSCORE", self.keys["queue"], name),
                ("ZSCORE", self.keys["partition_virtual_time"], name),
            )),
        )  # fmt: skip
        running = _running(held)
        return [
            PartitionState(name, waiting, running[name], _number(tag or debt))
            for name, (waiting, tag, debt) in zip(names, _threes(found), strict=True)
        ]

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

    def audit(self, largest_charge: float = WEIGHT_MAX) -> list[str]:
        """Check the design's invariants on what is stored.

        Args:
            largest_charge: Most that one item may have been charged.

        Returns:
            One sentence a violation, each begins with the invariant's number; empty when all
            hold. On a queue in use a violation counts when a second audit finds it too.

        Source:
            docs/design/fairness.md; I1, I3 to I6, I12 and I13 say something about a history and
            are tested, not audited.
        """
        return violations(read_stored(self.client, self.keys), largest_charge)

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

    def _at_once(self, *commands: Sequence[Any]) -> list[Any]:
        return at_once(self.client, *commands)


def _running(held: list[bytes]) -> Counter[str]:
    return Counter(read_held_lease(token.encode(), text).partition for token, text in pairs(held))


def _threes(reply: list[Any]) -> Iterator[list[Any]]:
    return (reply[at : at + 3] for at in range(0, len(reply), 3))


def _number(text: bytes | None) -> float | None:
    return None if text is None else float(text)
