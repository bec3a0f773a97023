"""Why a partition or an item is not running.

Invariants: nothing is written; each answer says one thing that is the case now, what decides first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from vtrr_queue.audit import at_once
from vtrr_queue.model import PRIORITY_DEFAULT
from vtrr_queue.policy import FIELDS, read_policy
from vtrr_queue.records import pack_id, read_dead_letter, read_priority, read_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtrr_queue.client import ScriptClient
    from vtrr_queue.keys import QueueKeys
    from vtrr_queue.records import HeldLease
    from vtrr_queue.roster import Roster

Kind = Literal[
    "paused", "held", "limited", "capped", "queue paused", "queue held", "queue limited",
    "queue full", "no worker", "ahead", "behind", "delayed", "running", "cancelled", "dead",
    "idle", "unknown",
]  # fmt: skip

LOOKED_AT = 1000
"""Delayed items, the first to be due, among which those of a partition are looked for."""

SEARCHED = 20_000
"""Items at the front of a backlog among which one is looked for."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that holds a partition or an item up, or what became of it.

    Attributes:
        kind: What it is, one of :data:`Kind`.
        text: The same as a sentence.
        partition: The partition; empty when there is none of this name.
        until_ms: When it ends by itself, server clock, ms since the epoch; None when not known.
        count: How many: serves ahead, items ahead of an item, items that run.
    """

    kind: Kind
    text: str
    partition: str = ""
    until_ms: int | None = None
    count: int | None = None


class Reasons:
    """Finds reasons.

    Args:
        client: Reads.
        keys: Names of the queue's keys.
        roster: Counts backlogs.
    """

    def __init__(self, client: ScriptClient, keys: QueueKeys, roster: Roster) -> None:
        self._client, self._keys, self._roster = client, keys, roster

    def of(self, name: str) -> list[Reason]:
        """All reasons for a partition of this name and for an item of this id."""
        leases = list(self._roster.leases())
        found = [*self._of_partition(name, leases), *self._of_item(name, leases)]
        text = f"there is neither a partition with work nor an item called {name!r}"
        return found or [Reason("unknown", text)]

    def of_item(self, item_id: str) -> list[Reason]:
        """The reasons for an item of this id; empty when there is none."""
        return list(self._of_item(item_id, list(self._roster.leases())))

    def _of_partition(self, name: str, leases: list[HeldLease]) -> Iterator[Reason]:
        running = sum(lease.partition == name for lease in leases)
        (waiting,) = self._roster.recount([name.encode()])
        if waiting:
            yield from self._held_up(name, running)
        elif running:
            are = "1 of its items is" if running == 1 else f"{running} of its items are"
            text = f"nothing of {name!r} waits; {are} running"
            yield Reason("running", text, name, count=running)
        else:
            later = self._delayed(name)
            if later is not None:
                yield later
            yield from self._at_rest(name, idle=later is None)

    def _at_rest(self, name: str, *, idle: bool) -> Iterator[Reason]:
        """What is set for a partition of which nothing waits or runs."""
        policy, default, now = at_once(
            self._client, ("HGET", self._keys["policy"], name),
            ("HGET", self._keys["policy"], ""), ("TIME",),
        )  # fmt: skip
        if not (policy and name):
            return
        if idle:
            yield Reason("idle", f"nothing of {name!r} waits or runs", name)
        yield from _own_reasons(name, default, policy, None, 0, _ms(now))

    def _delayed(self, name: str) -> Reason | None:
        """Items of a partition among the first that are delayed."""
        rows = self._client.read(
            ("ZRANGE", self._keys["delayed"], 0, LOOKED_AT - 1, "WITHSCORES")
        )[0]  # fmt: skip
        stored, dues = rows[::2], rows[1::2]
        if not stored:
            return None
        (records,) = self._client.read(("HMGET", self._keys["task"], *stored))
        own = [int(float(due)) for record, due in zip(records, dues, strict=True)
               if record and read_record(record)[0] == name]  # fmt: skip
        if not own:
            return None
        are = "1 item of it is" if len(own) == 1 else f"{len(own)} items of it are"
        text = f"nothing of {name!r} waits; {are} delayed, the first until {_clock(own[0])}"
        return Reason("delayed", text, name, own[0], len(own))

    def _of_item(self, item_id: str, leases: list[HeldLease]) -> Iterator[Reason]:
        keys, stored = self._keys, pack_id(item_id)
        record, letter, due, cancelled = at_once(
            self._client, ("HGET", keys["task"], stored), ("HGET", keys["dead"], stored),
            ("ZSCORE", keys["delayed"], stored), ("HGET", keys["cancelled"], stored),
        )  # fmt: skip
        if letter:
            dead = read_dead_letter(stored, letter)
            text = f"it is a dead letter since {_clock(dead.died_at_ms)}: {dead.reason}"
            yield Reason("dead", text, dead.partition)
        if not record:
            return
        partition = read_record(record)[0]
        lease = next((lease for lease in leases if lease.item_id == item_id), None)
        if lease:
            text = (
                f"it is running on {lease.holder or 'an unnamed worker'} since "
                f"{_clock(lease.started_at_ms)}; the lease ends {_clock(lease.expires_at_ms)}"
            )
            yield Reason("running", text, partition, lease.expires_at_ms)
            if cancelled is not None:
                yield Reason("cancelled", "it was cancelled and will not run again", partition)
        elif due is not None:
            until = int(float(due))
            yield Reason("delayed", f"it is delayed until {_clock(until)}", partition, until)
        else:
            running = sum(lease.partition == partition for lease in leases)
            yield from self._held_up(partition, running)
            yield self._behind(partition, item_id, read_priority(record))

    def _held_up(self, name: str, running: int) -> Iterator[Reason]:
        """Why a partition with something waiting is not served now."""
        now, default, text, wake, rank, queue_wake, inflight = at_once(
            self._client, ("TIME",), ("HGET", self._keys["policy"], ""),
            ("HGET", self._keys["policy"], name), ("ZSCORE", self._keys["parked"], name),
            ("ZRANK", self._keys["queue"], name), ("ZSCORE", self._keys["parked"], ""),
            ("ZCARD", self._keys["inflight"]),
        )  # fmt: skip
        now_ms = _ms(now)
        yield from _queue_reasons(default, queue_wake, inflight, now_ms)
        yield from _own_reasons(name, default, text, wake, running, now_ms)
        if rank is not None:
            yield from self._no_worker(name)
            others = "1 partition is" if rank == 1 else f"{rank} partitions are"
            text = f"{others} served before {name!r}"
            if not rank:
                text = f"{name!r} is served next, as soon as a worker has a free slot"
            yield Reason("ahead", text, name, count=rank)

    def _no_worker(self, name: str) -> Iterator[Reason]:
        (reply,) = self._client.ask(("PUBSUB", "NUMSUB", self._keys.wake_channel))
        if isinstance(reply, list) and not int(reply[1]):
            yield Reason("no worker", "no worker of this queue is running", name)

    def _behind(self, partition: str, item_id: str, priority: int) -> Reason:
        """How many of its own partition come first."""
        (levels,) = self._client.read(("HGET", self._keys["levels"], partition))
        used = {*map(int, (levels or b"").decode()), PRIORITY_DEFAULT}
        before = [self._keys.backlog(partition, each) for each in sorted(used) if each < priority]
        own = self._keys.backlog(partition, priority)
        place, *counts = self._client.read(
            ("LPOS", own, pack_id(item_id), "MAXLEN", SEARCHED),
            *(("LLEN", each) for each in before),
        )
        if place is None:
            text = f"more than {SEARCHED} items are before it in {partition!r}"
            return Reason("behind", text, partition)
        count = place + sum(counts)
        are = "1 item is" if count == 1 else f"{count} items are"
        text = f"{are} before it in {partition!r}"
        return Reason("behind", text, partition, count=count)


def _queue_reasons(
    text: bytes | None, wake: bytes | None, inflight: int, now_ms: int
) -> Iterator[Reason]:
    queue = read_policy(text)
    words = dict(zip(FIELDS, (text or b"").decode().split(), strict=False))
    most = words.get("max_in_flight", "-")
    until, held = int(float(wake or 0)), queue.held_until_ms or 0
    if queue.paused:
        yield Reason("queue paused", "the queue is paused")
    if held > now_ms:
        yield Reason("queue held", f"the queue is held until {_clock(held)}", until_ms=held)
    elif until > now_ms:
        text_ = f"the queue has used its rate until {_clock(until)}"
        yield Reason("queue limited", text_, until_ms=until)
    if most not in {"-", "0"} and inflight >= float(most):
        text_ = f"{inflight} items of the queue are running, max_in_flight is {most}"
        yield Reason("queue full", text_, count=inflight)


def _own_reasons(
    name: str, default: bytes | None, text: bytes | None, wake: bytes | None, running: int,
    now_ms: int,
) -> Iterator[Reason]:  # fmt: skip
    own, general = read_policy(text), read_policy(default)
    cap = own.cap if own.cap is not None else general.cap
    until, held = int(float(wake or 0)), own.held_until_ms or 0
    if own.paused:
        yield Reason("paused", f"partition {name!r} is paused", name)
    if held > now_ms:
        yield Reason("held", f"partition {name!r} is held until {_clock(held)}", name, held)
    elif until > now_ms:
        yield Reason("limited", f"partition {name!r} has used its rate until {_clock(until)}",
                     name, until)  # fmt: skip
    if running >= (cap or math.inf):
        text_ = f"{running} items of {name!r} are running, its cap is {cap:g}"
        yield Reason("capped", text_, name, count=running)


def _ms(now: list[bytes]) -> int:
    """The answer to TIME, ms."""
    return int(now[0]) * 1000 + int(now[1]) // 1000


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
