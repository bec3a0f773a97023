"""The mechanics of the reference scheduler: tags, clock, lines, leases, charges.

Invariants: the arithmetic is done in the order of the scripts, so that tags are equal to the last
bit; ties go to the lesser partition name, as in a sorted set.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import Literal

from vtrr_queue.model import ESTIMATE_STEP, FIRST_CHARGE_MS, PRIORITY_DEFAULT
from vtrr_queue.rules import Rules
from vtrr_queue.scores import Scores

MOST_LOOKS = 8
"""Most expired leases and most due items that one lease call looks at."""

RECLAIM_BATCH = 50
"""Most expired leases and most due items that one round of a reclaim looks at."""

REBASE_AT = 1e12
"""Clock beyond which all tags are moved back, so that doubles stay exact."""

Position = Literal["back", "front"]


@dataclass(slots=True)
class Record:
    """What is kept of an item from its enqueue to its ack."""

    partition: str
    weight: float | None
    timeouts: int = 0
    retries: int = 0
    priority: int = PRIORITY_DEFAULT
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class ReferenceLease:
    """The time-limited right to run one item.

    Attributes:
        item_id: The item.
        token: Fencing token.
        partition: Partition the item belongs to.
        weight: Weight of the item.
        timeouts: Earlier leases of this item that expired or were lost.
        retries: Retries so far.
        start_tag: Tag at which the partition was served.
        expires_at_ms: Expiry, ms.
        started_ms: When it was leased, ms.
        charge: What its partition has been charged so far: the weight, or ms.
        share: Share of the partition at the lease.
    """

    item_id: str
    token: str
    partition: str
    weight: float
    timeouts: int
    retries: int
    start_tag: float
    expires_at_ms: int
    started_ms: int
    charge: float
    share: float


@dataclass(frozen=True, slots=True)
class Burial:
    """An item kept for good."""

    record: Record
    reason: str
    died_at_ms: int


class Mechanics:
    """State and inner steps; :class:`vtrr_queue.reference.ReferenceScheduler` describes them."""

    def __init__(
        self,
        *,
        lease_ms: int = 3_900_000,
        reclaim_position: Position = "back",
        rebase_at: float = REBASE_AT,
        max_timeouts: int | None = None,
    ) -> None:
        self.lease_ms = lease_ms
        self.reclaim_position = reclaim_position
        self.rebase_at = rebase_at
        self.max_timeouts = max_timeouts
        self.now_ms = 0
        self.current_virtual_time = 0.0
        self.dead: dict[str, Burial] = {}
        self.rules = Rules()
        self._tokens = itertools.count(1)
        self._calls = itertools.count(1)
        self._rest()

    @property
    def by_runtime(self) -> bool:
        """Whether run time is charged, not weight."""
        return self.rules.policies.get("", {}).get("charge") == "runtime"

    def _serve(self, token: str, start_tag: float, partition: str) -> ReferenceLease:
        item_id = self._take_first(partition)
        record = self.task[item_id]
        expiry = self.now_ms + self.lease_ms
        weight = 1.0 if record.weight is None else record.weight
        share = self.rules.number(partition, "share")
        charge = self._expected(partition, record.weight) if self.by_runtime else weight
        lease = ReferenceLease(
            item_id, token, partition, weight, record.timeouts, record.retries,
            start_tag, expiry, self.now_ms, charge, share,
        )  # fmt: skip
        self._hold(lease)
        self._advance(start_tag)
        self.rules.spend(partition, weight, self.now_ms)
        self._keep_tag(
            partition, start_tag + charge / share, stays=self._waits(partition)
            and self._may_serve(partition),
        )  # fmt: skip
        return lease

    def _expected(self, partition: str, weight: float | None) -> float:
        if weight is not None:
            return max(1.0, weight * 1000)
        return max(1.0, self.estimate.get(partition, self.estimate.get("", FIRST_CHARGE_MS)))

    def _hold(self, lease: ReferenceLease) -> None:
        if lease.token not in self.leases:
            self._running[lease.partition] += 1
        self.leases[lease.token] = lease
        look: float = lease.expires_at_ms
        if self.by_runtime:
            look = min(look, math.ceil(lease.started_ms + lease.charge))
        self.inflight.set(lease.token, look)

    def _advance(self, start_tag: float) -> None:
        if start_tag > self.current_virtual_time:
            self.current_virtual_time = start_tag
            self.partition_virtual_time.take(start_tag)

    def _keep_tag(self, partition: str, tag: float, *, stays: bool) -> None:
        if stays:
            self.queue.set(partition, tag)
            return
        self.queue.drop(partition)
        if tag > self.current_virtual_time:
            self.partition_virtual_time.set(partition, tag)

    def _add_charge(self, partition: str, amount: float) -> None:
        clock, own = self.current_virtual_time, self.partition_virtual_time.drop(partition)
        if partition in self.queue:
            self.queue.set(partition, self.queue.scores[partition] + amount)
        elif (tag := (clock if own is None else own) + amount) > clock:
            self.partition_virtual_time.set(partition, tag)

    def _waits(self, partition: str) -> bool:
        return any(self.backlog.get(partition, {}).values())

    def _may_serve(self, partition: str) -> bool:
        return self.rules.is_free(partition, self._running[partition], self.now_ms)

    def _enter(self, partition: str) -> None:
        if partition in self.queue or not self._may_serve(partition):
            return
        own = self.partition_virtual_time.drop(partition)
        clock = self.current_virtual_time
        self.queue.set(partition, clock if own is None else max(clock, own))
        self.rules.parked.drop(partition)

    def _reconsider(self, partition: str) -> None:
        self.rules.parked.drop(partition)
        if self._waits(partition) and self._may_serve(partition):
            self._enter(partition)
        elif partition in self.queue:
            self._keep_tag(partition, self.queue.scores[partition], stays=False)

    def _append(self, partition: str, item_id: str, position: Position) -> None:
        line = self.backlog.setdefault(partition, {})
        level = line.setdefault(self.task[item_id].priority, deque())
        if position == "front":
            level.appendleft(item_id)
        else:
            level.append(item_id)

    def _take_first(self, partition: str) -> str:
        line = self.backlog[partition]
        level = min(line)
        item_id = line[level].popleft()
        self._tidy(partition, level)
        return item_id

    def _tidy(self, partition: str, level: int) -> None:
        if not self.backlog[partition][level]:
            del self.backlog[partition][level]
        if not self.backlog[partition]:
            del self.backlog[partition]

    def _look(self, most: int) -> tuple[int, int]:
        due = self.inflight.take(self.now_ms, most)
        expired = 0
        for token in reversed(due) if self.reclaim_position == "front" else due:
            lease = self.leases[token]
            if lease.expires_at_ms <= self.now_ms:
                expired += 1
                self._put_back(token, self.reclaim_position, lease.expires_at_ms, timed_out=True)
            else:
                self._outrun(lease)
        return expired, len(due)

    def _outrun(self, lease: ReferenceLease) -> None:
        grown = lease.charge
        while self.by_runtime and grown <= self.now_ms - lease.started_ms:
            grown *= 2
        if self.by_runtime:
            self._add_charge(lease.partition, (grown - lease.charge) / lease.share)
        self._hold(replace(lease, charge=grown))

    def _promote(self, most: int) -> int:
        due = self.delayed.take((self.now_ms + 1, 0), most)
        for item_id in due:
            partition = self.task[item_id].partition
            self._append(partition, item_id, "back")
            self._enter(partition)
        return len(due)

    def _unpark(self, most: int) -> int:
        due = self.rules.wake(self.now_ms, most)
        for partition in due:
            if partition and self._waits(partition):
                self._enter(partition)
        return len(due)

    def _put_back(self, token: str, position: Position, ended: int, *, timed_out: bool) -> None:
        lease = self.leases[token]
        record = self.task[lease.item_id]
        if record.cancelled:
            self._finish(token, ended, learns=False)
            return
        record.timeouts += timed_out
        if timed_out and record.timeouts == self.max_timeouts:
            self._bury(token, f"max_timeouts: {record.timeouts} lost runs", ended, learns=False)
            return
        self._append(lease.partition, lease.item_id, position)
        self._drop_lease(token, ended, learns=False)
        self._enter(lease.partition)

    def _finish(self, token: str, ended: int, *, learns: bool) -> Record:
        record = self.task.pop(self.leases[token].item_id)
        self._drop_lease(token, ended, learns=learns)
        if not self.task:
            self._rest()
        return record

    def _bury(self, token: str, reason: str, ended: int, *, learns: bool = True) -> None:
        item_id = self.leases[token].item_id
        if not self.task[item_id].cancelled:
            self.dead[item_id] = Burial(self.task[item_id], reason, self.now_ms)
        self._finish(token, ended, learns=learns)

    def _is_held(self, item_id: str, token: str) -> bool:
        lease = self.leases.get(token)
        return lease is not None and lease.item_id == item_id

    def _drop_lease(self, token: str, ended: int, *, learns: bool) -> None:
        lease = self.leases.pop(token)
        self.inflight.drop(token)
        self._running[lease.partition] -= 1
        if self.by_runtime:
            actual = max(1, ended - lease.started_ms)
            self._add_charge(lease.partition, (actual - lease.charge) / lease.share)
            for field in (lease.partition, "") if learns else ():
                mean = self.estimate.get(field, actual)
                self.estimate[field] = mean + (actual - mean) * ESTIMATE_STEP
        if self._waits(lease.partition):
            self._enter(lease.partition)

    def _rebase(self) -> None:
        clock = self.current_virtual_time
        if clock <= self.rebase_at:
            return
        for tags in (self.queue, self.partition_virtual_time):
            for member, tag in tags.scores.items():
                tags.set(member, tag - clock)
        self.current_virtual_time = 0.0

    def _rest(self) -> None:
        """Nothing waits and nothing runs: no tag outlives that."""
        self.current_virtual_time = 0.0
        self.queue: Scores[float] = Scores()
        self.partition_virtual_time: Scores[float] = Scores()
        self.backlog: dict[str, dict[int, deque[str]]] = {}
        self.task: dict[str, Record] = {}
        self.inflight: Scores[float] = Scores()
        self.leases: dict[str, ReferenceLease] = {}
        self._running: Counter[str] = Counter()
        self.delayed: Scores[tuple[int, int]] = Scores()
        self.estimate: dict[str, float] = {}
        self.rules.parked = Scores()
