"""The rule of fair order in pure Python: oracle of the tests, heart of the simulator.

The rule is start-time fair queueing (Goyal, Vin, Cheng 1996, doi 10.1145/248156.248171), applied
to the head of each partition's line. Every partition with something waiting has a start tag; the
partition with the least tag is served, its tag becomes the clock, and the tag moves on by the
charge of the item that was served, divided by the partition's share. The charge is the item's
weight, or its run time: expected at the lease, doubled while the run outruns it, and corrected
when it ends. A partition at its cap, over its rate, held or paused has no tag in the queue until
it may be served again.

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

from dataclasses import replace
from typing import TYPE_CHECKING

from vtrr_queue.mechanics import (
    MOST_LOOKS,
    REBASE_AT,
    RECLAIM_BATCH,
    Burial,
    Mechanics,
    Position,
    Record,
    ReferenceLease,
)
from vtrr_queue.model import PRIORITY_DEFAULT

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping

__all__ = ["MOST_LOOKS", "REBASE_AT", "RECLAIM_BATCH", "Burial", "Record", "ReferenceLease",
           "ReferenceScheduler"]  # fmt: skip


class ReferenceScheduler(Mechanics):
    """One fair queue in memory.

    Every method takes ``now_ms``, the server clock at the call; it must not run backwards.

    Args:
        lease_ms: How long a lease lasts, ms.
        reclaim_position: Where an expired item goes in its partition.
        rebase_at: Clock beyond which tags are moved back.
        max_timeouts: Lost runs that make an item a dead letter; None for no end.

    Attributes:
        queue: Partition -> start tag, exactly the partitions that may be served now.
        current_virtual_time: The clock, highest start tag served in this busy period.
        partition_virtual_time: Partition -> tag ahead of the clock while it is not in the queue.
        backlog: Partition -> priority -> ids of its waiting items, oldest first; none is empty.
        task: Item id -> record, from enqueue to ack.
        inflight: Token -> time at which the lease expires or outruns its charge, ms.
        leases: Token -> lease.
        delayed: Item id -> (due time, order of the calls).
        dead: Item id -> burial.
        estimate: Partition -> mean run time, ms; "" for all.
        rules: Policies, rates and holds.
    """

    @property
    def waiting(self) -> int:
        """Items in the backlogs."""
        return len(self.task) - len(self.inflight) - len(self.delayed)

    @property
    def running(self) -> Counter[str]:
        """Mapping partition -> leases held."""
        return +self._running

    def next_wake_ms(self) -> int | None:
        """Earliest time at which something changes by itself."""
        looks = (self.inflight.least(), self.rules.parked.least())
        times = [int(first[0]) for first in looks if first]
        due = self.delayed.least()
        return min(times + ([due[0][0]] if due else []), default=None)

    def enqueue(
        self, partition: str, item_id: str, *, now_ms: int, weight: float | None = None,
        delay_ms: int = 0, priority: int = PRIORITY_DEFAULT,
    ) -> bool:  # fmt: skip
        """Store an item; False when its id is waiting or running already."""
        self.now_ms = now_ms
        if item_id in self.task:
            return False
        self.dead.pop(item_id, None)
        self.task[item_id] = Record(partition, weight, priority=priority)
        if delay_ms > 0:
            self.delayed.set(item_id, (now_ms + delay_ms, next(self._calls)))
        else:
            self._append(partition, item_id, "back")
            self._enter(partition)
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
        self._unpark(MOST_LOOKS + count)
        self._rebase()
        given = iter(tokens)
        leased: list[ReferenceLease] = []
        while len(leased) < count and (first := self.queue.least()):
            if self.rules.room(len(self.leases), now_ms, servable=len(self.queue)) <= 0:
                break
            token = next(given, None) or f"{next(self._tokens):032x}"
            leased.append(self._serve(token, *first))
        return leased

    def ack(self, item_id: str, token: str, *, now_ms: int) -> bool:
        """Finish an item; False when that lease is not held, and then nothing changes."""
        self.now_ms = now_ms
        if not self._is_held(item_id, token):
            return False
        self._finish(token, now_ms, learns=True)
        return True

    def renew(
        self, item_id: str, token: str, *, now_ms: int, lease_ms: int | None = None
    ) -> int | None:
        """Extend a lease from now; the new expiry, None when it is not held."""
        self.now_ms = now_ms
        if not self._is_held(item_id, token):
            return None
        expiry = now_ms + (self.lease_ms if lease_ms is None else lease_ms)
        self._hold(replace(self.leases[token], expires_at_ms=expiry))
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
        self._put_back(token, where, now_ms, timed_out=timed_out)
        return True

    def retry(
        self, item_id: str, token: str, *, now_ms: int, delay_ms: int, retries: int
    ) -> int | None:
        """Set a leased item aside until its retry; when it is due, None when it is not held."""
        self.now_ms = now_ms
        if not self._is_held(item_id, token):
            return None
        if self.task[item_id].cancelled:
            self._finish(token, now_ms, learns=True)
            return now_ms
        self.task[item_id].retries = retries
        self.delayed.set(item_id, (now_ms + delay_ms, next(self._calls)))
        self._drop_lease(token, now_ms, learns=True)
        return now_ms + delay_ms

    def bury(self, item_id: str, token: str, reason: str, *, now_ms: int) -> bool:
        """Move a leased item to the dead letters; False when the lease is not held."""
        self.now_ms = now_ms
        if not self._is_held(item_id, token):
            return False
        self._bury(token, reason, now_ms)
        return True

    def requeue(self, item_ids: Iterable[str], *, now_ms: int, partition: str = "") -> list[str]:
        """Make dead letters items again; the ids that were."""
        self.now_ms = now_ms
        taken = self.drop(item_ids, partition=partition)
        for item_id, record in taken.items():
            self.task[item_id] = Record(record.partition, record.weight, priority=record.priority)
            self._append(record.partition, item_id, "back")
            self._enter(record.partition)
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
            expired, looked = self._look(RECLAIM_BATCH)
            moved = self._promote(RECLAIM_BATCH) + self._unpark(RECLAIM_BATCH)
            total += expired
            if max(looked, moved) < RECLAIM_BATCH:
                return total

    def set_policy(self, partition: str, words: Mapping[str, str], *, now_ms: int) -> None:
        """Change what a partition, or the queue (""), may do; the words of a policy's text."""
        self.now_ms = now_ms
        self.rules.change(partition, words, now_ms)
        if not partition:
            self.rules.parked.drop("")
        for each in [partition] if partition else list(self.running):
            self._reconsider(each)
        for each in [] if partition else list(self.rules.parked.scores):
            self._reconsider(each)
        if not self.task:
            self._rest()

    def purge(self, partition: str, *, now_ms: int) -> int:
        """Forget what waits in a partition; how many items that were."""
        line = [each for level in self.backlog.get(partition, {}).values() for each in level]
        return len(self.cancel(line, now_ms=now_ms)[0])

    def cancel(self, item_ids: Iterable[str], *, now_ms: int) -> tuple[list[str], list[str]]:
        """Forget waiting items and mark running ones; the ids of both."""
        self.now_ms = now_ms
        running = {lease.item_id for lease in self.leases.values()}
        waiting, marked = [], []
        touched: set[str] = set()
        for item_id in item_ids:
            record = self.task.get(item_id)
            if record is None:
                continue
            if item_id in running:
                record.cancelled = True
                marked.append(item_id)
                continue
            waiting.append(item_id)
            if self.delayed.drop(item_id) is None:
                self.backlog[record.partition][record.priority].remove(item_id)
                self._tidy(record.partition, record.priority)
                touched.add(record.partition)
            del self.task[item_id]
        for partition in touched:
            self._reconsider(partition)
        if not self.task:
            self._rest()
        return waiting, marked
