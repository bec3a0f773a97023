"""The rule of fair order in pure Python: oracle of the tests, heart of the simulator.

The rule is start-time fair queueing (Goyal, Vin, Cheng 1996, doi 10.1145/248156.248171), applied
to the head of each partition's line. Every partition with something waiting has a start tag; the
partition with the least tag is served, its tag becomes the clock, and the tag moves on by the
weight of the item that was served. Here the charge is the weight, every share is 1 and nothing
is capped.

Why it is fair. A tag is the service a partition has had since it joined, counted from the clock
at that moment. As the least tag is always served next, no tag runs more than one charge ahead of
the clock, so two partitions that both keep something waiting never differ by more than one charge
of each (I3), and the k-th item of a partition comes after a number of serves that depends on how
many partitions wait and never on how much they have waiting (I12).

Why a partition comes back at ``max(its tag, the clock)``. A tag behind the clock would be credit
for time in which it asked for nothing, and would let it hold up everybody else for as long as it
was away; so idling earns nothing (I10), and a newcomer waits for one serve of each partition
whose tag equals the clock (I5). A tag ahead of the clock is debt, and is kept until the clock has
passed it: if it were forgotten when a partition runs dry, one that enqueues a single item
whenever it is empty would always start at the clock and starve a partition with a backlog.

Why the clock is the tag *served* and not an average over time: it needs no rate of the server,
so workers may come and go, and nothing happens while nobody is served.

Invariants: time comes in with each call; the arithmetic is done in the order of the scripts, so
that tags are equal to the last bit; ties go to the lesser partition name, as in a sorted set.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vtrr_queue.scores import Scores

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_LOOKS = 8
"""Most expired leases and most due items that one lease call looks at."""

RECLAIM_BATCH = 100
"""Most expired leases and most due items that one round of a reclaim looks at."""

REBASE_AT = 1e12
"""Clock beyond which all tags are moved back, so that doubles stay exact."""

Position = Literal["back", "front"]


@dataclass(slots=True)
class Record:
    """What is kept of an item from its enqueue to its ack."""

    partition: str
    weight: float
    timeouts: int = 0
    retries: int = 0


@dataclass(frozen=True, slots=True)
class ReferenceLease:
    """The time-limited right to run one item.

    Attributes:
        item_id: The item.
        token: Fencing token.
        partition: Partition the item belongs to.
        weight: Weight of the item, which is what its partition was charged.
        timeouts: Earlier leases of this item that expired or were lost.
        retries: Retries so far.
        start_tag: Tag at which the partition was served.
        expires_at_ms: Expiry, ms, unless it is renewed.
    """

    item_id: str
    token: str
    partition: str
    weight: float
    timeouts: int
    retries: int
    start_tag: float
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Burial:
    """An item kept for good."""

    record: Record
    reason: str
    died_at_ms: int


class ReferenceScheduler:
    """One fair queue in memory.

    Every method takes ``now_ms``, the server clock at the call; it must not run backwards.

    Args:
        lease_ms: How long a lease lasts, ms.
        reclaim_position: Where an expired item goes in its partition.
        rebase_at: Clock beyond which tags are moved back.
        max_timeouts: Lost runs that make an item a dead letter; None for no end.

    Attributes:
        queue: Partition -> start tag, exactly the partitions with something waiting.
        current_virtual_time: The clock, highest start tag served in this busy period.
        partition_virtual_time: Partition -> tag ahead of the clock while nothing waits.
        backlog: Partition -> ids of its waiting items, oldest first; no empty lines.
        task: Item id -> record, from enqueue to ack.
        inflight: Token -> time at which the lease expires, ms.
        leases: Token -> lease.
        delayed: Item id -> (due time, order of the calls).
        dead: Item id -> burial.
    """

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
        self._tokens = itertools.count(1)
        self._calls = itertools.count(1)
        self._rest()

    @property
    def waiting(self) -> int:
        """Items in the backlogs."""
        return len(self.task) - len(self.inflight) - len(self.delayed)

    @property
    def running(self) -> Counter[str]:
        """Mapping partition -> leases held."""
        return Counter(lease.partition for lease in self.leases.values())

    def next_wake_ms(self) -> int | None:
        """Earliest time at which a lease expires or a delayed item becomes due."""
        expiry, due = self.inflight.least(), self.delayed.least()
        times = ([int(expiry[0])] if expiry else []) + ([due[0][0]] if due else [])
        return min(times, default=None)

    def enqueue(
        self, partition: str, item_id: str, *, now_ms: int, weight: float = 1.0, delay_ms: int = 0
    ) -> bool:
        """Store an item; False when its id is waiting or running already."""
        self.now_ms = now_ms
        if item_id in self.task:
            return False
        self.dead.pop(item_id, None)
        self.task[item_id] = Record(partition, weight)
        if delay_ms > 0:
            self.delayed.set(item_id, (now_ms + delay_ms, next(self._calls)))
        else:
            self._append(partition, item_id, "back")
        return True

    def lease(
        self, count: int = 1, *, now_ms: int, tokens: Iterable[str] = ()
    ) -> list[ReferenceLease]:
        """Lease the next items in fair order, fewer when fewer are servable.

        Args:
            count: Most items to lease.
            now_ms: Server clock.
            tokens: Fencing tokens to use; the scheduler makes those that are missing.
        """
        self.now_ms = now_ms
        self._look(MOST_LOOKS)
        self._promote(MOST_LOOKS)
        self._rebase()
        given = iter(tokens)
        leased: list[ReferenceLease] = []
        while len(leased) < count and (first := self.queue.least()):
            token = next(given, None) or f"{next(self._tokens):032x}"
            leased.append(self._serve(token, *first))
        return leased

    def ack(self, item_id: str, token: str, *, now_ms: int) -> bool:
        """Finish an item; False when that lease is not held, and then nothing changes."""
        self.now_ms = now_ms
        if not self._is_held(item_id, token):
            return False
        del self.task[item_id]
        self._drop_lease(token)
        if not self.task:
            self._rest()
        return True

    def renew(
        self, item_id: str, token: str, *, now_ms: int, lease_ms: int | None = None
    ) -> int | None:
        """Extend a lease from now; the new expiry, None when it is not held."""
        self.now_ms = now_ms
        if not self._is_held(item_id, token):
            return None
        expiry = now_ms + (self.lease_ms if lease_ms is None else lease_ms)
        self.inflight.set(token, expiry)
        return expiry

    def release(
        self,
        item_id: str,
        token: str,
        *,
        now_ms: int,
        timed_out: bool = False,
        position: Position | None = None,
    ) -> bool:
        """Give an item back before its lease ends; False when the lease is not held."""
        self.now_ms = now_ms
        if not self._is_held(item_id, token):
            return False
        where = position or (self.reclaim_position if timed_out else "front")
        self._put_back(token, where, timed_out=timed_out)
        return True

    def retry(
        self, item_id: str, token: str, *, now_ms: int, delay_ms: int, retries: int
    ) -> int | None:
        """Set a leased item aside until its retry; when it is due, None when it is not held."""
        self.now_ms = now_ms
        if not self._is_held(item_id, token):
            return None
        self.task[item_id].retries = retries
        self.delayed.set(item_id, (now_ms + delay_ms, next(self._calls)))
        self._drop_lease(token)
        return now_ms + delay_ms

    def bury(self, item_id: str, token: str, reason: str, *, now_ms: int) -> bool:
        """Move a leased item to the dead letters; False when the lease is not held."""
        self.now_ms = now_ms
        if not self._is_held(item_id, token):
            return False
        self._bury(token, reason)
        return True

    def requeue(self, item_ids: Iterable[str], *, now_ms: int, partition: str = "") -> list[str]:
        """Make dead letters items again; the ids that were."""
        self.now_ms = now_ms
        taken = self.drop(item_ids, partition=partition)
        for item_id, record in taken.items():
            self.task[item_id] = Record(record.partition, record.weight)
            self._append(record.partition, item_id, "back")
        return list(taken)

    def drop(self, item_ids: Iterable[str], *, partition: str = "") -> dict[str, Record]:
        """Forget dead letters; those that were, by id."""
        found = [each for each in dict.fromkeys(item_ids) if each in self.dead]
        records = {each: self.dead[each].record for each in found}
        records = {each: x for each, x in records.items() if partition in {"", x.partition}}
        for each in records:
            del self.dead[each]
        return records

    def reclaim(self, *, now_ms: int) -> int:
        """Put expired leases back and promote due items; how many leases had expired."""
        self.now_ms = now_ms
        total = 0
        while True:
            expired, promoted = self._look(RECLAIM_BATCH), self._promote(RECLAIM_BATCH)
            total += expired
            if max(expired, promoted) < RECLAIM_BATCH:
                return total

    def _serve(self, token: str, start_tag: float, partition: str) -> ReferenceLease:
        item_id = self.backlog[partition].popleft()
        record = self.task[item_id]
        expiry = self.now_ms + self.lease_ms
        lease = ReferenceLease(
            item_id, token, partition, record.weight, record.timeouts, record.retries,
            start_tag, expiry,
        )  # fmt: skip
        self.leases[token] = lease
        self.inflight.set(token, expiry)
        self._advance(start_tag)
        self._keep_tag(partition, start_tag + record.weight)
        return lease

    def _advance(self, start_tag: float) -> None:
        if start_tag > self.current_virtual_time:
            self.current_virtual_time = start_tag
            self.partition_virtual_time.take(start_tag)

    def _keep_tag(self, partition: str, tag: float) -> None:
        if self.backlog[partition]:
            self.queue.set(partition, tag)
            return
        del self.backlog[partition]
        self.queue.drop(partition)
        if tag > self.current_virtual_time:
            self.partition_virtual_time.set(partition, tag)

    def _append(self, partition: str, item_id: str, position: Position) -> None:
        line = self.backlog.setdefault(partition, deque())
        if position == "front":
            line.appendleft(item_id)
        else:
            line.append(item_id)
        if partition not in self.queue:
            own = self.partition_virtual_time.drop(partition)
            clock = self.current_virtual_time
            self.queue.set(partition, clock if own is None else max(clock, own))

    def _look(self, most: int) -> int:
        due = self.inflight.take(self.now_ms, most)
        for token in reversed(due) if self.reclaim_position == "front" else due:
            self._put_back(token, self.reclaim_position, timed_out=True)
        return len(due)

    def _promote(self, most: int) -> int:
        due = self.delayed.take((self.now_ms + 1, 0), most)
        for item_id in due:
            self._append(self.task[item_id].partition, item_id, "back")
        return len(due)

    def _put_back(self, token: str, position: Position, *, timed_out: bool) -> None:
        lease = self.leases[token]
        record = self.task[lease.item_id]
        record.timeouts += timed_out
        if timed_out and record.timeouts == self.max_timeouts:
            self._bury(token, f"max_timeouts: {record.timeouts} lost runs")
            return
        self._append(lease.partition, lease.item_id, position)
        self._drop_lease(token)

    def _bury(self, token: str, reason: str) -> None:
        item_id = self.leases[token].item_id
        self.dead[item_id] = Burial(self.task.pop(item_id), reason, self.now_ms)
        self._drop_lease(token)
        if not self.task:
            self._rest()

    def _is_held(self, item_id: str, token: str) -> bool:
        lease = self.leases.get(token)
        return lease is not None and lease.item_id == item_id

    def _drop_lease(self, token: str) -> None:
        del self.leases[token]
        self.inflight.drop(token)

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
        self.backlog: dict[str, deque[str]] = {}
        self.task: dict[str, Record] = {}
        self.inflight: Scores[float] = Scores()
        self.leases: dict[str, ReferenceLease] = {}
        self.delayed: Scores[tuple[int, int]] = Scores()
