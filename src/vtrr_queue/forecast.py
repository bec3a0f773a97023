"""Where an item stands, and about how long it will wait.

Invariants: nothing is written; an estimate that can't be made is None, never a guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from vtrr_queue.audit import at_once
from vtrr_queue.model import FIRST_CHARGE_MS, PRIORITY_DEFAULT
from vtrr_queue.policy import FIELDS, read_policy
from vtrr_queue.reasons import Reason, Reasons
from vtrr_queue.records import pack_id, read_record
from vtrr_queue.roster import Roster
from vtrr_queue.stats import read_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vtrr_queue.engine import Engine

PIECE = 1000
"""Partitions that are read at once."""

MOST_PARTITIONS = 20_000
"""Most partitions whose turns are counted; with more the answer is a lower bound."""

WEIGHED = 200
"""Most items of a backlog whose weights are read."""

WEIGHED_BYTES = 1_000_000
"""Most of their records that is read, bytes: a record has its item's body, too."""

FEWEST_RUNS = 10
"""With fewer measured runs than these the wait is not told."""

State = Literal["waiting", "delayed", "running"]


@dataclass(frozen=True, slots=True)
class Position:
    """Where an item stands.

    Attributes:
        partition: Its partition.
        state: Whether it waits, is delayed, or runs.
        behind: Items of its own partition that are served before it; None when there are more than
            are looked through, or it does not wait.
        ahead: About how many items of all partitions, its own included, are served before it; None
            where ``behind`` is. It is exact if nothing is enqueued, paused or held up meanwhile,
            other partitions' items have weights of 1, and at most 200 are before it in its own.
        wait_seconds: How long until it starts, about, s; None when that can't be said: its
            partition or the queue is paused, no worker is there, none keeps statistics, fewer than
            ten runs were measured, or nothing runs now. Where its partition or the queue waits for
            its rate, the rate alone tells it in the last two cases.
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

    What it takes for granted: weights of 1 in other partitions, in the item's own those of the
    first :data:`WEIGHED` before it for all of them, run times as they have been on the average, as
    many items running at a time as now, and nothing enqueued meanwhile. A busy partition that
    others join waits longer than that, one whose neighbours run dry less; one that is capped or
    limited lets others pass, which ``ahead`` does not count.

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
        found: dict[str, Reason] = {
            reason.kind: reason for reason in self._reasons.of_item(item_id)
        }
        if "running" in found:
            return Position(partition, "running", wait_seconds=0.0)
        if "delayed" in found:
            return Position(partition, "delayed")
        if "behind" not in found:
            return None  # it has ended meanwhile
        behind = found["behind"].count
        if behind is None:
            return Position(partition, "waiting")
        weights = self._weights(partition, behind)
        others, is_least = self._turns_of_others(partition, behind, weights)
        ahead = behind + others
        runs = self._by_runs(partition, ahead, behind, found)
        rates = self._by_rates(partition, ahead, behind, weights)
        wait = self._wait(found, runs, rates)
        return Position(partition, "waiting", behind, ahead, wait, is_least)

    def _weights(self, partition: str, behind: int) -> list[float]:
        """Weights of the first items before it; as much as may be read of them."""
        keys = self._keys
        if not behind:
            return []
        (levels,) = self._client.read(("HGET", keys["levels"], partition))
        used = sorted({*map(int, (levels or b"").decode()), PRIORITY_DEFAULT})
        most = min(behind, WEIGHED)
        lists = self._client.read(
            *(("LRANGE", keys.backlog(partition, each), 0, most - 1) for each in used)
        )
        ids = [each for some in lists for each in some][:most]
        if not ids:
            return []  # they have been served meanwhile
        sizes = self._client.read(*(("HSTRLEN", keys["task"], each) for each in ids))
        fit = sum(total <= WEIGHED_BYTES for total in accumulate(sizes))
        (records,) = self._client.read(("HMGET", keys["task"], *ids[:fit])) if fit else ([],)
        return [read_record(record)[1] for record in records if record]

    def _turns_of_others(
        self, partition: str, behind: int, weights: list[float]
    ) -> tuple[int, bool]:
        """Items of other partitions that are served before the item, and whether more may be."""
        keys, name = self._keys, partition.encode()
        schema, clock, own, kept, default, policy, mean, own_mean = at_once(
            self._client, ("GET", keys["schema"]), ("GET", keys["current_virtual_time"]),
            ("ZSCORE", keys["queue"], name), ("ZSCORE", keys["partition_virtual_time"], name),
            ("HGET", keys["policy"], ""), ("HGET", keys["policy"], name),
            ("HGET", keys["estimate"], ""), ("HGET", keys["estimate"], name),
        )  # fmt: skip
        turn, charges = 1.0, weights
        if b"r" in (schema or b""):  # as scripts/lib/charge_of.lua
            turn = max(1.0, float(mean or FIRST_CHARGE_MS))
            usual = max(1.0, float(own_mean or turn))
            charges = [usual if each == 1 else max(1.0, each * 1000) for each in weights]
        general = read_policy(default).share or 1.0
        start = float(own) if own else max(float(clock or 0), float(kept or 0))
        charge = _mean(charges, default=turn)
        last = start + behind * charge / (read_policy(policy).share or general)
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

    def _wait(
        self, reasons: Mapping[str, Reason], runs: float | None, rates: float | None
    ) -> float | None:
        """Seconds until the item starts, if anything tells.

        Args:
            reasons: Kind -> what holds the item up now.
            runs: What :meth:`_by_runs` says.
            rates: What :meth:`_by_rates` says.
        """
        (listening,) = self._client.ask(("PUBSUB", "NUMSUB", self._keys.wake_channel))
        no_worker = isinstance(listening, list) and not int(listening[1])
        if no_worker or reasons.keys() & {"paused", "queue paused", "no worker"}:
            return None
        if runs is None:
            return rates if reasons.keys() & {"limited", "queue limited"} else None
        return max(runs, rates or 0.0)

    def _by_runs(
        self, partition: str, ahead: int, behind: int, reasons: Mapping[str, Reason]
    ) -> float | None:
        """Seconds until the item starts by what runs now and how long runs took, if they tell."""
        now, running, policy, default = at_once(
            self._client, ("TIME",), ("ZCARD", self._keys["inflight"]),
            ("HGET", self._keys["policy"], partition), ("HGET", self._keys["policy"], ""),
        )  # fmt: skip
        ran = read_statistics(self._client, self._keys).ran
        if not running or ran.count < FEWEST_RUNS:
            return None
        mean = ran.sum_seconds / ran.count
        cap = read_policy(policy).cap or read_policy(default).cap or math.inf
        wait = max(ahead * mean / running, behind * mean / min(cap, running))
        untils = [each.until_ms for each in reasons.values() if each.until_ms is not None]
        return float(max([wait, *((until - _ms(now)) / 1000 for until in untils)]))

    def _by_rates(
        self, partition: str, ahead: int, behind: int, weights: list[float]
    ) -> float | None:
        """Seconds until the rates of its partition and of the queue let the item start."""
        now, own, whole, mine, general = at_once(
            self._client, ("TIME",), ("ZSCORE", self._keys["rate"], partition),
            ("ZSCORE", self._keys["rate"], ""), ("HGET", self._keys["policy"], partition),
            ("HGET", self._keys["policy"], ""),
        )  # fmt: skip
        words, queue = _words(mine), _words(general)
        if words.get("interval", "-") == "-":
            words = queue
        weight = _mean(weights, default=1.0)
        waits = [
            _by_rate(words, "", float(own or 0) - _ms(now), behind, weight),
            _by_rate(queue, "total_", float(whole or 0) - _ms(now), ahead, weight),
        ]
        return max((each for each in waits if each is not None), default=None)


def _by_rate(
    words: Mapping[str, str], prefix: str, arrival_ms: float, before: int, weight: float
) -> float | None:
    """Seconds until a rate lets an item start that has so many before it; None without a rate.

    Args:
        words: Of a policy.
        prefix: Of the rate's fields.
        arrival_ms: The theoretical arrival time, ms from now.
        before: Items that are let through before it.
        weight: What these weigh on the average.
    """
    interval, tolerance, by = (words.get(prefix + each, "-") for each in
                               ("interval", "tolerance", "by"))  # fmt: skip
    if interval in {"-", "0"}:
        return None
    each = float(interval) * (weight if by == "weight" else 1)
    spare = 0.0 if tolerance == "-" else float(tolerance)
    return max(0.0, max(0.0, arrival_ms) + before * each - spare) / 1000


def _words(text: bytes | None) -> dict[str, str]:
    return dict(zip(FIELDS, (text or b"").decode().split(), strict=False))


def _mean(numbers: list[float], *, default: float) -> float:
    return math.fsum(numbers) / len(numbers) if numbers else default


def _ms(time: list[bytes]) -> int:
    """A reply of ``TIME`` in milliseconds."""
    return int(time[0]) * 1000 + int(time[1]) // 1000


def _turns(lead: float, *, first: bool) -> int:
    """Turns a partition takes until another one's tag that is ahead of its own by this many.

    Equal tags are served by name.
    """
    nearest = round(lead)
    if abs(lead - nearest) < 1e-9 * max(1.0, abs(lead)):
        return nearest + first
    return math.floor(lead) + 1
