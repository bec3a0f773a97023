"""Where an item stands, and about how long it will wait.

Invariants: nothing is written; an estimate that can't be made is None, never a guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vtrr_queue.audit import at_once
from vtrr_queue.model import FIRST_CHARGE_MS
from vtrr_queue.policy import read_policy
from vtrr_queue.reasons import Reason, Reasons
from vtrr_queue.records import pack_id, read_record
from vtrr_queue.roster import Roster
from vtrr_queue.stats import read_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtrr_queue.engine import Engine

PIECE = 1000
"""Partitions that are read at once."""

MOST_PARTITIONS = 20_000
"""Most partitions whose turns are counted; with more the answer is a lower bound."""

State = Literal["waiting", "delayed", "running"]


@dataclass(frozen=True, slots=True)
class Position:
    """Where an item stands.

    Attributes:
        partition: Its partition.
        state: Whether it waits, is delayed, or runs.
        behind: Items of its own partition that are served before it; None when there are more than
            are looked through, or it does not wait.
        ahead: Items of all partitions, its own included, that are served before it if nothing else
            is enqueued; None where ``behind`` is.
        wait_seconds: How long until it starts, about, s; None when that can't be said: its
            partition is paused, nothing runs, no worker is there, or none keeps statistics.
        is_least: Whether there are more partitions before it than were counted.
    """

    partition: str
    state: State
    behind: int | None = None
    ahead: int | None = None
    wait_seconds: float | None = None
    is_least: bool = False


class Forecast:
    """Says where items stand.

    What it takes for granted: weights of 1, run times as they have been on the average, as many
    items running at a time as now, and nothing enqueued meanwhile. A busy partition that others
    join waits longer than that, one whose neighbours run dry less.

    Args:
        engine: The queue.
    """

    def __init__(self, engine: Engine) -> None:
        self._client, self._keys = engine.client, engine.keys
        self._roster = Roster(engine.client, engine.keys)
        self._reasons = Reasons(engine.client, engine.keys, self._roster)

    def position(self, item_id: str) -> Position | None:
        """Where an item stands; None when there is none of this id, or it is a dead letter.

        Args:
            item_id: The item.
        """
        (record,) = self._client.read(("HGET", self._keys["task"], pack_id(item_id)))
        if record is None:
            return None
        partition = read_record(record)[0]
        found = {reason.kind: reason for reason in self._reasons.of_item(item_id)}
        if "running" in found:
            return Position(partition, "running", wait_seconds=0.0)
        if "delayed" in found:
            return Position(partition, "delayed")
        if "behind" not in found:
            return None  # it has ended meanwhile
        behind = found["behind"].count
        if behind is None:
            return Position(partition, "waiting")
        others, is_least = self._turns_of_others(partition, behind)
        ahead = behind + others
        wait = self._wait(partition, ahead, behind, list(found.values()))
        return Position(partition, "waiting", behind, ahead, wait, is_least)

    def _turns_of_others(self, partition: str, behind: int) -> tuple[int, bool]:
        """Items of other partitions that are served before the item, and whether more may be."""
        keys, name = self._keys, partition.encode()
        schema, clock, own, kept, default, policy, mean = at_once(
            self._client, ("GET", keys["schema"]), ("GET", keys["current_virtual_time"]),
            ("ZSCORE", keys["queue"], name), ("ZSCORE", keys["partition_virtual_time"], name),
            ("HGET", keys["policy"], ""), ("HGET", keys["policy"], name),
            ("HGET", keys["estimate"], ""),
        )  # fmt: skip
        turn = float(mean or FIRST_CHARGE_MS) if b"r" in (schema or b"") else 1.0
        general = read_policy(default).share or 1.0
        start = float(own) if own else max(float(clock or 0), float(kept or 0))
        last = start + behind * turn / (read_policy(policy).share or general)
        total = looked_at = 0
        for page in self._queued_until(last):
            looked_at += len(page)
            names = [each for each, _ in page]
            counts = self._roster.recount(names)
            (texts,) = self._client.read(("HMGET", keys["policy"], *names))
            for (each, tag), count, text in zip(page, counts, texts, strict=True):
                if each != name:
                    share = read_policy(text).share or general
                    total += min(count, _turns((last - tag) * share / turn, first=each < name))
            if looked_at >= MOST_PARTITIONS:
                return total, True
        return total, False

    def _queued_until(self, last: float) -> Iterator[list[tuple[bytes, float]]]:
        at = 0
        while True:
            (reply,) = self._client.read(
                ("ZRANGEBYSCORE", self._keys["queue"], "-inf", repr(last), "WITHSCORES",
                 "LIMIT", at, PIECE),
            )  # fmt: skip
            page = [(reply[n], float(reply[n + 1])) for n in range(0, len(reply), 2)]
            if page:
                yield page
            if len(page) < PIECE:
                return
            at += PIECE

    def _wait(self, partition: str, ahead: int, behind: int, reasons: list[Reason]) -> float | None:
        """Seconds until the item starts, if what runs now and how long runs took tell."""
        if any(reason.kind in {"paused", "queue paused", "no worker"} for reason in reasons):
            return None
        now, running, policy, default = at_once(
            self._client, ("TIME",), ("ZCARD", self._keys["inflight"]),
            ("HGET", self._keys["policy"], partition), ("HGET", self._keys["policy"], ""),
        )  # fmt: skip
        ran = read_statistics(self._client, self._keys).ran
        if not running or not ran.count:
            return None
        mean = ran.sum_seconds / ran.count
        cap = read_policy(policy).cap or read_policy(default).cap or math.inf
        wait = max(ahead * mean / running, behind * mean / min(cap, running))
        now_ms = int(now[0]) * 1000 + int(now[1]) // 1000
        untils = [reason.until_ms for reason in reasons if reason.until_ms is not None]
        return float(max([wait, *((until - now_ms) / 1000 for until in untils)]))


def _turns(lead: float, *, first: bool) -> int:
    """Turns a partition takes until another one's tag that is ahead of its own by this many.

    Equal tags are served by name.
    """
    nearest = round(lead)
    if abs(lead - nearest) < 1e-9 * max(1.0, abs(lead)):
        return nearest + first
    return math.floor(lead) + 1
