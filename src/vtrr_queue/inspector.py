"""Read-only views on a queue: depth, partitions, leases, dead letters, audit.

Invariants: nothing is written; the numbers of one view belong to one moment, because they are
read in one transaction. Only :meth:`Inspector.audit` needs two steps, as it must find the
backlogs first, so it is exact while no script runs in between.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtrr_queue.dead import DeadLetters
from vtrr_queue.doctor import Finding, examine_server
from vtrr_queue.keys import SCHEDULING_KEYS, SCHEMA
from vtrr_queue.model import WEIGHT_MAX
from vtrr_queue.records import read_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vtrr_queue.engine import Engine
    from vtrr_queue.model import DeadLetter

SCAN_COUNT = 1000
"""Keys that one SCAN looks at, about 0.1 ms of the server."""


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


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease as others see it.

    Attributes:
        item_id: The item.
        token: Fencing token.
        partition: Partition of the item.
        holder: Who runs it.
        started_at_ms: When it was leased, server clock.
        expires_at_ms: Expiry, server clock.
        charge: What its partition has been charged so far.
    """

    item_id: str
    token: str
    partition: str
    holder: str
    started_at_ms: int
    expires_at_ms: int
    charge: float


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
            ("HGETALL", self.keys["running"]),
        )
        running = {name: int(count) for name, count in _pairs(held)}
        served_next = [name for name, _ in _pairs(tags)]
        names = (served_next + sorted(running.keys() - set(served_next)))[:limit]
        found = self._at_once(*(command for name in names for command in (
            ("LLEN", self.keys.backlog(name)),
            ("HGET", self.keys["running"], name),
            ("ZSCORE", self.keys["queue"], name),
            ("ZSCORE", self.keys["partition_virtual_time"], name),
        )))  # fmt: skip
        return [
            PartitionState(name, waiting, int(count or 0), _number(tag or debt))
            for name, (waiting, count, tag, debt) in zip(names, _fours(found), strict=True)
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
        return violations(self._stored(), largest_charge)

    def doctor(self) -> list[Finding]:
        """Look for settings that put the queue at risk.

        Returns:
            Findings, worst first; empty when all is well.

        Source:
            docs/doctor.md lists all of them.
        """
        return examine_server(self.client, self.keys)

    def _at_once(self, *commands: Sequence[Any]) -> list[Any]:
        if not commands:
            return []
        replies: list[Any] = self.client.read(("MULTI",), *map(tuple, commands), ("EXEC",))[-1]
        return replies

    def _backlogs(self) -> list[str]:
        prefix = self.keys.backlog("")
        pattern, cursor, found = _escaped(prefix) + "*", b"0", set[str]()
        while True:
            ((cursor, names),) = self.client.read(
                ("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
            )
            found |= {name.decode().removeprefix(prefix) for name in names}
            if cursor == b"0":
                return sorted(found)

    def _stored(self) -> _Stored:
        partitions = self._backlogs()
        key = self.keys
        replies = self._at_once(
            ("GET", key["schema"]),
            ("GET", key["current_virtual_time"]),
            *(("HGETALL", key[name]) for name in ("task", "lease", "running", "dead")),
            *(("ZRANGE", key[name], 0, -1, "WITHSCORES")
              for name in ("queue", "partition_virtual_time", "parked", "inflight", "delayed",
                           "dead_index")),
            *(("EXISTS", key[name]) for name in SCHEDULING_KEYS),
            *(("LRANGE", key.backlog(name), 0, -1) for name in partitions),
        )  # fmt: skip
        hashes = [dict(_pairs(reply)) for reply in replies[2:6]]
        scores = [{name: float(text) for name, text in _pairs(reply)} for reply in replies[6:12]]
        last = 12 + len(SCHEDULING_KEYS)
        lines = zip(partitions, replies[last:], strict=True)
        return _Stored(
            schema=(replies[0] or b"").decode(),
            clock=float(replies[1] or 0),
            records={item_id: read_record(text) for item_id, text in hashes[0].items()},
            leases={t: read_held_lease(t.encode(), text) for t, text in hashes[1].items()},
            running={name: int(count) for name, count in hashes[2].items()},
            dead=set(hashes[3]),
            queue=scores[0], debts=scores[1], parked=scores[2],
            inflight=scores[3], delayed=scores[4], dead_index=set(scores[5]),
            present=[name for name, there in zip(SCHEDULING_KEYS, replies[12:last], strict=True)
                     if there],
            backlogs={name: [item_id.decode() for item_id in line] for name, line in lines},
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Stored:
    """Everything a queue holds, taken apart."""

    schema: str
    clock: float
    records: dict[str, tuple[str, float, int, int, bytes]]
    leases: dict[str, HeldLease]
    running: dict[str, int]
    dead: set[str]
    queue: dict[str, float]
    debts: dict[str, float]
    parked: dict[str, float]
    inflight: dict[str, float]
    delayed: dict[str, float]
    dead_index: set[str]
    present: list[str]
    backlogs: dict[str, list[str]]


def violations(stored: _Stored, largest_charge: float) -> list[str]:
    """One sentence for each invariant that does not hold."""
    rules = (_tags(stored, largest_charge), _running(stored), _servable(stored),
             _places(stored), _leases(stored), _letters(stored), _rest(stored))  # fmt: skip
    return [violation for rule in rules for violation in rule]


def read_held_lease(token: bytes, text: bytes) -> HeldLease:
    """Take a lease record apart, see ``scripts/lib/hold_lease.lua``."""
    start, charge, expiry, id_length, partition_length, rest = text.split(b" ", 5)
    middle = int(id_length)
    last = middle + int(partition_length)
    return HeldLease(
        item_id=rest[:middle].decode(), token=token.decode(),
        partition=rest[middle:last].decode(), holder=rest[last:].decode(),
        started_at_ms=int(start), expires_at_ms=int(expiry), charge=float(charge),
    )  # fmt: skip


def _tags(stored: _Stored, largest_charge: float) -> Iterator[str]:
    most = stored.clock + largest_charge
    for name, tag in stored.queue.items():
        if not stored.clock <= tag <= most:
            yield f"I2: tag {tag!r} of {name!r} is outside {stored.clock!r} to {most!r}"
    for name, tag in stored.debts.items():
        if not stored.clock < tag <= most:
            yield f"I10: kept tag {tag!r} of {name!r} is not ahead of the clock {stored.clock!r}"


def _running(stored: _Stored) -> Iterator[str]:
    held = Counter(lease.partition for lease in stored.leases.values())
    if held != Counter(stored.running) or 0 in stored.running.values():
        yield f"I7: running {stored.running} are not the leases {dict(held)}"


def _servable(stored: _Stored) -> Iterator[str]:
    queued, waiting = set(stored.queue), set(stored.backlogs)
    for name in sorted(waiting - queued):
        yield f"I8: {name!r} has items waiting and is not in the queue"
    for name in sorted(queued - waiting):
        yield f"I8: {name!r} is in the queue and has nothing waiting"
    for name in sorted(queued & (stored.debts.keys() | stored.parked.keys())):
        yield f"I8: {name!r} is in the queue and in another place"


def _places(stored: _Stored) -> Iterator[str]:
    places = Counter[str](stored.delayed.keys())
    places.update(lease.item_id for lease in stored.leases.values())
    for name, line in stored.backlogs.items():
        places.update(line)
        for item_id in line:
            if stored.records.get(item_id, (name,))[0] != name:
                yield f"I9: item {item_id!r} waits in another partition, {name!r}"
    for item_id in stored.records.keys() | places.keys():
        if item_id not in stored.records or places[item_id] != 1:
            known = "known" if item_id in stored.records else "unknown"
            yield f"I9: {known} item {item_id!r} is in {places[item_id]} places"
    for item_id in sorted(stored.dead & stored.records.keys()):
        yield f"I9: item {item_id!r} is alive and dead"
    waiting = sum(map(len, stored.backlogs.values()))
    total = waiting + len(stored.delayed) + len(stored.inflight)
    if total != len(stored.records):
        yield f"I9: {total} items wait or run, {len(stored.records)} records are kept"


def _leases(stored: _Stored) -> Iterator[str]:
    for token in sorted(stored.leases.keys() ^ stored.inflight.keys()):
        yield f"I9: token {token!r} is not both in lease and in inflight"
    for token, lease in stored.leases.items():
        if stored.inflight.get(token, lease.expires_at_ms) > lease.expires_at_ms:
            yield f"I4: lease of {lease.item_id!r} is looked at after it has expired"
        partition, weight = stored.records.get(lease.item_id, (lease.partition, lease.charge))[:2]
        if (partition, weight) != (lease.partition, lease.charge):
            yield f"I9: lease of {lease.item_id!r} differs from its record"


def _letters(stored: _Stored) -> Iterator[str]:
    for item_id in sorted(stored.dead ^ stored.dead_index):
        yield f"I9: dead letter {item_id!r} is not both kept and listed"


def _rest(stored: _Stored) -> Iterator[str]:
    if stored.records:
        if stored.schema != SCHEMA:
            yield f"I11: items are kept under layout {stored.schema!r}, not {SCHEMA!r}"
    elif stored.present:
        yield f"I11: nothing waits or runs, and there is {', '.join(stored.present)}"


def _pairs(reply: list[bytes]) -> Iterator[tuple[str, bytes]]:
    return ((reply[at].decode(), reply[at + 1]) for at in range(0, len(reply), 2))


def _fours(reply: list[Any]) -> Iterator[list[Any]]:
    return (reply[at : at + 4] for at in range(0, len(reply), 4))


def _number(text: bytes | None) -> float | None:
    return None if text is None else float(text)


def _escaped(text: str) -> str:
    return re.sub(r"([*?\[\]\\^-])", r"\\\1", text)
