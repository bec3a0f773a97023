"""The audit: everything a queue holds, taken apart and checked against the design's invariants."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtrr_queue.keys import SCHEDULING_KEYS, SCHEMA, is_our_layout
from vtrr_queue.model import PRIORITY_DEFAULT
from vtrr_queue.policy import Policy, read_policy
from vtrr_queue.records import HeldLease, read_held_lease, read_priority, read_record, unpack_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vtrr_queue.client import ScriptClient
    from vtrr_queue.keys import QueueKeys

SCAN_COUNT = 1000

PIECE = 500
"""Most members, items and commands of one piece."""
"""Keys that one SCAN looks at, about 0.1 ms of the server."""

Line = tuple[str, int]
"""Partition and priority of a backlog."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything a queue holds, taken apart.

    Attributes:
        lines: Partition and priority -> what stands in that backlog, cancelled ids included.
        backlogs: Partition -> ids of its waiting items in the order in which they will be served.
    """

    schema: str
    clock: float
    records: dict[str, tuple[str, float, int, int, bytes]]
    priorities: dict[str, int]
    leases: dict[str, HeldLease]
    running: dict[str, int]
    dead: set[str]
    policies: dict[str, Policy]
    cancelled: dict[str, str]
    holes: dict[str, int]
    levels: dict[str, str]
    estimates: dict[str, float]
    queue: dict[str, float]
    debts: dict[str, float]
    parked: dict[str, float]
    inflight: dict[str, float]
    delayed: dict[str, float]
    dead_index: set[str]
    arrivals: dict[str, float]
    present: list[str]
    lines: dict[Line, list[str]]
    backlogs: dict[str, list[str]]

    @property
    def by_runtime(self) -> bool:
        """Whether run time is charged."""
        return "r" in self.schema

    def cap(self, partition: str) -> float:
        """Most items of a partition that may run."""
        own = self.policies.get(partition, Policy()).cap
        default = self.policies.get("", Policy()).cap
        return next((cap for cap in (own, default) if cap is not None), float("inf"))


_HASHES = ("task", "lease", "running", "dead", "policy", "cancelled", "holes", "levels", "estimate")
_SETS = ("queue", "partition_virtual_time", "parked", "inflight", "delayed", "dead_index", "rate")


def read_stored(client: ScriptClient, keys: QueueKeys, *, in_pieces: bool = False) -> Stored:
    """Read a queue in two steps: its backlogs are found first, then all is read.

    Args:
        client: Reads.
        keys: Of the queue.
        in_pieces: Read it bit by bit, so that the server is not kept; otherwise at one moment.
    """
    found = _find_lines(client, keys)
    read = piece_by_piece if in_pieces else at_once
    replies = read(
        client,
        ("GET", keys["schema"]),
        ("GET", keys["current_virtual_time"]),
        *(("HGETALL", keys[name]) for name in _HASHES),
        *(("ZRANGE", keys[name], 0, -1, "WITHSCORES") for name in _SETS),
        *(("EXISTS", keys[name]) for name in SCHEDULING_KEYS),
        *(("LRANGE", keys.backlog(*line), 0, -1) for line in found),
    )
    last = 2 + len(_HASHES)
    hashes = {name: dict(pairs(reply))
              for name, reply in zip(_HASHES, replies[2:last], strict=True)}  # fmt: skip
    scores = {name: {member: float(score) for member, score in pairs(reply)}
              for name, reply in zip(_SETS, replies[last:], strict=False)}  # fmt: skip
    last += len(_SETS)
    there = replies[last : last + len(SCHEDULING_KEYS)]
    lists = replies[last + len(SCHEDULING_KEYS) :]
    lines = {line: [unpack_id(item_id) for item_id in ids]
             for line, ids in zip(found, lists, strict=True)}  # fmt: skip
    cancelled = {item_id: text.decode() for item_id, text in hashes["cancelled"].items()}
    backlogs: dict[str, list[str]] = {}
    for name, priority in sorted(lines):
        live = [each for each in lines[name, priority] if each not in cancelled]
        if live:
            backlogs.setdefault(name, []).extend(live)
    return Stored(
        schema=(replies[0] or b"").decode(),
        clock=float(replies[1] or 0),
        records={item_id: read_record(text) for item_id, text in hashes["task"].items()},
        priorities={item_id: read_priority(text) for item_id, text in hashes["task"].items()},
        leases={t: read_held_lease(t.encode(), text) for t, text in hashes["lease"].items()},
        running={name: int(count) for name, count in hashes["running"].items()},
        dead=set(hashes["dead"]),
        policies={name: read_policy(text) for name, text in hashes["policy"].items()},
        cancelled=cancelled,
        holes={name: int(count) for name, count in hashes["holes"].items()},
        levels={name: text.decode() for name, text in hashes["levels"].items()},
        estimates={name: float(text) for name, text in hashes["estimate"].items()},
        queue=scores["queue"], debts=scores["partition_virtual_time"], parked=scores["parked"],
        inflight=scores["inflight"], delayed=scores["delayed"],
        dead_index=set(scores["dead_index"]), arrivals=scores["rate"],
        present=[name for name, is_there in zip(SCHEDULING_KEYS, there, strict=True) if is_there],
        lines=lines, backlogs=backlogs,
    )  # fmt: skip


def violations(stored: Stored, largest_charge: float) -> list[str]:
    """One sentence for each invariant that does not hold."""
    rules = (_tags(stored, largest_charge), _running(stored), _servable(stored), _places(stored),
             _leases(stored), _letters(stored), _holes(stored), _rest(stored))  # fmt: skip
    return [violation for rule in rules for violation in rule]


def at_once(client: ScriptClient, *commands: Sequence[Any]) -> list[Any]:
    """Read in one transaction, so that the answers belong to one moment."""
    if not commands:
        return []
    replies: list[Any] = client.read(("MULTI",), *map(tuple, commands), ("EXEC",))[-1]
    return replies


def piece_by_piece(client: ScriptClient, *commands: Sequence[Any]) -> list[Any]:
    """Read the same in small pieces; what changes meanwhile may be missing, or be there twice."""
    replies: list[Any] = []
    for at in range(0, len(commands), PIECE):
        some = [_first_piece(command) for command in commands[at : at + PIECE]]
        for command, reply in zip(some, client.read(*some), strict=True):
            replies.append(reply if command[0] in _WHOLE else _rest_of(client, command, reply))
    return replies


_WHOLE = ("GET", "EXISTS")
_SCANS = {"HGETALL": "HSCAN", "ZRANGE": "ZSCAN"}


def _first_piece(command: Sequence[Any]) -> tuple[Any, ...]:
    name, key = command[:2]
    if name in _SCANS:
        return (_SCANS[name], key, b"0", "COUNT", PIECE)
    return (name, key, 0, PIECE - 1) if name == "LRANGE" else tuple(command)


def _rest_of(client: ScriptClient, command: tuple[Any, ...], reply: list[Any]) -> list[Any]:
    """A whole key, from its first piece on."""
    name, key = command[:2]
    if name == "LRANGE":
        found, piece = list(reply), reply
        while len(piece) == PIECE:
            (piece,) = client.read((name, key, len(found), len(found) + PIECE - 1))
            found += piece
        return found
    cursor, found = reply[0], list(reply[1])
    while cursor != b"0":
        ((cursor, piece),) = client.read((name, key, cursor, "COUNT", PIECE))
        found += piece
    return found


def pairs(reply: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """Members and values of a flat reply."""
    return ((unpack_id(reply[at]), reply[at + 1]) for at in range(0, len(reply), 2))


def _find_lines(client: ScriptClient, keys: QueueKeys) -> list[Line]:
    found = set[Line]()
    for priority in (PRIORITY_DEFAULT, None):
        prefix = keys.backlog("") if priority is not None else keys["level:"]
        pattern, cursor = re.sub(r"([*?\[\]\\^-])", r"\\\1", prefix) + "*", b"0"
        while True:
            ((cursor, names),) = client.read(
                ("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
            )
            for name in names:
                text = name.decode().removeprefix(prefix)
                found.add((text, priority) if priority is not None else (text[2:], int(text[0])))
            if cursor == b"0":
                break
    return sorted(found)


def _tags(stored: Stored, largest_charge: float) -> Iterator[str]:
    shares = [policy.share or 1.0 for policy in stored.policies.values()]
    most = stored.clock + largest_charge / min((1.0, *shares))
    if stored.by_runtime:  # corrected after the fact: its bounds depend on a history
        most = float("inf")
    for name, tag in stored.queue.items():
        if not stored.by_runtime and not stored.clock <= tag <= most:
            yield f"I2: tag {tag!r} of {name!r} is outside {stored.clock!r} to {most!r}"
    for name, tag in stored.debts.items():
        if not stored.clock < tag <= most:
            yield f"I10: kept tag {tag!r} of {name!r} is not ahead of the clock {stored.clock!r}"


def _running(stored: Stored) -> Iterator[str]:
    held = Counter(lease.partition for lease in stored.leases.values())
    counted = held if "p" in stored.schema else Counter[str]()
    if counted != Counter(stored.running) or 0 in stored.running.values():
        yield f"I7: running {stored.running} are not the leases {dict(counted)}"


def _servable(stored: Stored) -> Iterator[str]:
    queued, waiting = set(stored.queue), set(stored.backlogs)
    for name in sorted(waiting - queued - stored.parked.keys()):
        if not _is_blocked(stored, name):
            yield f"I8: {name!r} has items waiting and is not in the queue"
    for name in sorted(queued):
        if name not in waiting:
            yield f"I8: {name!r} is in the queue and has nothing waiting"
        if _is_blocked(stored, name):
            yield f"I8: {name!r} is in the queue, and paused or at its cap"
    for name in sorted(queued & (stored.debts.keys() | stored.parked.keys())):
        yield f"I8: {name!r} is in the queue and in another place"


def _is_blocked(stored: Stored, name: str) -> bool:
    paused = stored.policies.get(name, Policy()).paused
    return paused or stored.running.get(name, 0) >= stored.cap(name)


def _places(stored: Stored) -> Iterator[str]:
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


def _leases(stored: Stored) -> Iterator[str]:
    for token in sorted(stored.leases.keys() ^ stored.inflight.keys()):
        yield f"I9: token {token!r} is not both in lease and in inflight"
    for token, lease in stored.leases.items():
        if stored.inflight.get(token, lease.expires_at_ms) > lease.expires_at_ms:
            yield f"I4: lease of {lease.item_id!r} is looked at after it has expired"
        partition, weight = stored.records.get(lease.item_id, (lease.partition, lease.charge))[:2]
        charge = weight if stored.by_runtime or stored.policies else lease.charge
        if (partition, weight) != (lease.partition, charge):
            yield f"I9: lease of {lease.item_id!r} differs from its record"


def _letters(stored: Stored) -> Iterator[str]:
    for item_id in sorted(stored.dead ^ stored.dead_index):
        yield f"I9: dead letter {item_id!r} is not both kept and listed"


def _holes(stored: Stored) -> Iterator[str]:
    waiting = {item_id: name for item_id, name in stored.cancelled.items() if name}
    if Counter(waiting.values()) != Counter(stored.holes):
        yield f"I9: holes {stored.holes} are not the cancelled items {waiting}"
    levels: dict[str, str] = {}
    for (name, priority), line in sorted(stored.lines.items()):
        if priority != PRIORITY_DEFAULT:
            levels[name] = levels.get(name, "") + str(priority)
        for item_id in line:
            if stored.priorities.get(item_id, priority) != priority:
                yield f"I6: item {item_id!r} waits at another priority, {priority}"
    if levels != stored.levels:
        yield f"I6: priorities in use are {levels}, noted are {stored.levels}"


def _rest(stored: Stored) -> Iterator[str]:
    if stored.records:
        if not is_our_layout(stored.schema):
            yield f"I11: items are kept under layout {stored.schema!r}, not {SCHEMA!r}"
    elif stored.present:
        yield f"I11: nothing waits or runs, and there is {', '.join(stored.present)}"
