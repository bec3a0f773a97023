"""Moves a queue's items from the keys of 0.2 to ours, a batch at a time.

Invariants: an item is in one of the two layouts after every command, because a batch is written
and removed in one MULTI/EXEC that WATCH guards; ``schema`` says ``migrating`` from the first
change to the last, so no engine works on half a queue; a conversion that died goes on where it
stopped, and two that run at once do each batch once.

Three steps. *Set aside*: the keys of 0.2 are renamed, which takes them from processes of 0.2 that
still run. *Convert*: leased items, waiting items in their old order, then payloads without a
place; keys whose names collide grow under another name. *Put in place*: once no key of 0.2 has
come back, those get their names and ``schema`` its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import redis
from redis.exceptions import WatchError

from vtrr_queue.keys import DEAD_LETTERS, SCHEMA, QueueKeys
from vtrr_queue.migrate.old_layout import (
    BUILT,
    MIGRATING,
    OLD_TYPES,
    Converted,
    MigrationKeys,
    dead_letter,
    lease_expiry_ms,
    lease_record,
    stored_id,
    substitute_token,
)
from vtrr_queue.migrate.survey import (
    Client,
    Found,
    MigrationRefused,
    check_types,
    look,
    read_all,
    read_batch,
)
from vtrr_queue.pool import private_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BATCH = 500
"""Items moved in one transaction, which blocks the server for a few milliseconds."""

SOCKET_TIMEOUT = 30.0
"""Bound on connecting and on one reply, s."""

_ATTEMPTS = 5
_SOURCES = ("inflight", "queue", "task", "inflight_task")
_PER_ITEM = ("task", "inflight_task", "meta", "lease", "timeouts")
_WRITTEN_LIVE = {"dead": "hash", "dead_index": "zset"}
_NO_PLACE = "was neither waiting nor leased"

Pipe = Any
"""A pipeline of such a client that watches keys: reads at once, writes in one step."""

_Result = TypeVar("_Result")
_Leased = tuple[Converted, float]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many items are where.

    Attributes:
        waiting: In backlogs.
        leased: Under the lease that 0.2 gave.
        dead: Dead letters, because they cannot be run.
        repeated: Ids met a second time; the first one stands.
    """

    waiting: int = 0
    leased: int = 0
    dead: int = 0
    repeated: int = 0

    @property
    def items(self) -> int:
        """All of them."""
        return self.waiting + self.leased + self.dead + self.repeated

    def plus(self, other: Tally) -> Tally:
        """The sum of two."""
        return Tally(
            self.waiting + other.waiting,
            self.leased + other.leased,
            self.dead + other.dead,
            self.repeated + other.repeated,
        )


class Migration:
    """The conversion of one queue.

    Args:
        redis_client: A ``redis.Redis``; its settings are cloned, it is not used itself.
        name: Queue name.
        batch: Items moved in one transaction.

    Attributes:
        placed: What stood in the queue when it was opened in our layout, None before.
    """

    def __init__(self, redis_client: object, name: str, batch: int = BATCH) -> None:
        self.keys = MigrationKeys(QueueKeys(name))
        self.batch = batch
        self.placed: Tally | None = None
        self._client: Client = redis.Redis(
            connection_pool=private_pool(redis_client, SOCKET_TIMEOUT)
        )

    def close(self) -> None:
        """Close every connection."""
        self._client.connection_pool.disconnect()

    def look(self) -> Found:
        """Say what stands under the prefix, see :func:`vtrr_queue.migrate.survey.look`."""
        return look(self._client, self.keys)

    def read(self, found: Found) -> Iterator[tuple[Converted, float | None]]:
        """Read what would be converted, see :func:`vtrr_queue.migrate.survey.read_all`."""
        return read_all(self._client, self.keys, found, self.batch)

    def unexpired(self, found: Found) -> tuple[int, int]:
        """Count leases that have not ended, and tell when the last one does (ms)."""
        name = self.keys.aside if found.schema == MIGRATING else self.keys.live.__getitem__
        count = self._client.zcount(name("inflight"), self.server_now_ms() / 1000, "+inf")
        last = self._client.zrange(name("inflight"), -1, -1, withscores=True)
        return int(count), lease_expiry_ms(last[0][1]) if last else 0

    def server_now_ms(self) -> int:
        """Server clock, ms."""
        seconds, microseconds = self._client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def run(self, report: Callable[[Tally], object]) -> Tally:
        """Convert the queue, or go on where an earlier call stopped.

        Args:
            report: Gets the running total after each batch.

        Returns:
            What this call moved; a batch whose confirmation was lost is not counted.

        Raises:
            MigrationRefused: The keys cannot be converted, or 0.2 goes on writing.
        """
        total = Tally()
        self._set_aside()
        for _ in range(_ATTEMPTS):
            for tally in self._batches():
                total = total.plus(tally)
                report(total)
            if self._put_in_place():
                return total
        raise self._still_written()

    def _set_aside(self) -> None:
        """Take the keys of 0.2 away and close the queue, in one step."""
        live = self.keys.live

        def change(pipe: Pipe) -> None:
            found = look(self._client, self.keys)
            pipe.multi()
            if found.live and not found.schema:
                self._rename_old(pipe, found.live)

        self._transaction([live["schema"], *(live[key] for key in OLD_TYPES)], change)

    def _batches(self) -> Iterator[Tally]:
        """Convert what was set aside; each step is one batch that has been moved."""
        expected = {self.keys.live[key]: kind for key, kind in _WRITTEN_LIVE.items()}
        check_types(self._client, self.keys.live.prefix, expected)
        watched = list(map(self.keys.aside, _SOURCES))
        for source in _SOURCES:
            while (tally := self._transaction(watched, partial(self._move, source))) is not None:
                yield tally

    def _put_in_place(self) -> bool:
        """Open the queue in our layout, or set aside what 0.2 has written meanwhile.

        Returns:
            Whether the conversion is over.
        """
        live, aside, built = self.keys.live, self.keys.aside, self.keys.built

        def change(pipe: Pipe) -> bool:
            found = look(self._client, self.keys)
            if found.schema != MIGRATING:  # another conversion has ended it
                pipe.multi()
                return True
            if pipe.exists(*map(aside, _SOURCES)):  # another conversion has set more aside
                pipe.multi()
                return False
            ready = [key for key in BUILT if pipe.exists(built(key))]
            placed = self._count(pipe)
            pipe.multi()
            pipe.unlink(*map(aside, OLD_TYPES))
            if found.live:
                self._rename_old(pipe, found.live)
                return False
            for key in ready:
                pipe.rename(built(key), live[key])
            if placed.items:
                pipe.set(live["schema"], f"{SCHEMA}{DEAD_LETTERS if placed.dead else ''}")
            else:
                pipe.delete(live["schema"])
            self.placed = placed
            return True

        watched = [live["schema"], *(live[key] for key in OLD_TYPES), *map(aside, _SOURCES)]
        return self._transaction(watched, change)

    def _move(self, source: str, pipe: Pipe) -> Tally | None:
        """Move the next batch of a source; None when it is empty."""
        entries = self._next_entries(source, pipe)
        if not entries:
            pipe.multi()
            return None
        ids = [item_id for item_id, _ in entries]
        fault = "" if OLD_TYPES[source] == "zset" else _NO_PLACE
        items = read_batch(self._client, source, ids, self.keys.aside, fault)
        known = self._known(ids)
        fresh = [
            (item, score)
            for item, (item_id, score) in zip(items, entries, strict=True)
            if item_id not in known
        ]
        dead = [item for item, _ in fresh if item.fault]
        sound = [(item, score) for item, score in fresh if not item.fault]
        now_ms = self.server_now_ms()
        if source == "inflight":
            leased, waiting = self._with_tokens(sound), []
        else:
            leased, waiting = [], [item for item, _ in sound]
        check_types(
            self._client,
            self.keys.live.prefix,
            {self._backlog(item.partition): "list" for item in waiting},
        )
        pipe.multi()
        self._store_dead(pipe, dead, now_ms)
        self._store_leased(pipe, leased, now_ms)
        self._store_waiting(pipe, waiting)
        self._remove(pipe, source, ids)
        return Tally(len(waiting), len(leased), len(dead), len(known))

    def _next_entries(self, source: str, pipe: Pipe) -> list[tuple[bytes, float]]:
        """The next ids of a source, about a batch, with their scores."""
        name = self.keys.aside(source)
        if OLD_TYPES[source] == "zset":
            found: list[tuple[bytes, float]] = pipe.zrange(name, 0, self.batch - 1, withscores=True)
            return found
        if pipe.exists(self.keys.aside("inflight"), self.keys.aside("queue")):
            return []  # another conversion has set more aside: these have a place
        cursor: int | None = None
        while cursor != 0:
            cursor, page = pipe.hscan(name, cursor or 0, count=self.batch)
            if page:
                return [(item_id, 0.0) for item_id in page]
        return []

    def _known(self, ids: Sequence[bytes]) -> set[bytes]:
        with self._client.pipeline(transaction=False) as pipe:
            for key in (self.keys.built("task"), self.keys.live["dead"]):
                for item_id in ids:
                    pipe.hexists(key, stored_id(item_id))
            hits = pipe.execute()
        return {item_id for item_id, hit in zip((*ids, *ids), hits, strict=True) if hit}

    def _with_tokens(self, sound: Sequence[_Leased]) -> list[tuple[Converted, float, bytes]]:
        """Add the old token of each lease, or another one: our leases are found by them."""
        if not sound:
            return []
        ids = [item.item_id for item, _ in sound]
        taken = set(self._client.hkeys(self.keys.built("lease")))
        leased = []
        for (item, score), old in zip(
            sound, self._client.hmget(self.keys.aside("lease"), ids), strict=True
        ):
            token = old if old and old not in taken else substitute_token(item.item_id)
            taken.add(token)
            leased.append((item, score, token))
        return leased

    def _store_dead(self, pipe: Pipe, dead: Sequence[Converted], now_ms: int) -> None:
        for item in dead:
            pipe.hset(self.keys.live["dead"], item.stored_id, dead_letter(item, now_ms))
            pipe.zadd(self.keys.live["dead_index"], {item.stored_id: now_ms})

    def _store_leased(
        self, pipe: Pipe, leased: Sequence[tuple[Converted, float, bytes]], now_ms: int
    ) -> None:
        for item, score, token in leased:
            record, expiry_ms = lease_record(item, score, now_ms)
            pipe.hset(self.keys.built("task"), item.stored_id, item.record)
            pipe.hset(self.keys.built("lease"), token, record)
            pipe.zadd(self.keys.built("inflight"), {token: expiry_ms})

    def _store_waiting(self, pipe: Pipe, waiting: Sequence[Converted]) -> None:
        for item in waiting:
            pipe.hset(self.keys.built("task"), item.stored_id, item.record)
        ordered = sorted(waiting, key=lambda item: item.partition)  # stable: the old order stays
        for partition, items in groupby(ordered, key=lambda item: item.partition):
            pipe.rpush(self._backlog(partition), *(item.stored_id for item in items))
            pipe.zadd(self.keys.built("queue"), {partition: 0})

    def _remove(self, pipe: Pipe, source: str, ids: Sequence[bytes]) -> None:
        if OLD_TYPES[source] == "zset":
            pipe.zrem(self.keys.aside(source), *ids)
        for key in _PER_ITEM:
            pipe.hdel(self.keys.aside(key), *ids)

    def _rename_old(self, pipe: Pipe, present: Sequence[str]) -> None:
        pipe.set(self.keys.live["schema"], MIGRATING)
        for key in present:
            pipe.rename(self.keys.live[key], self.keys.aside(key))

    def _count(self, pipe: Pipe) -> Tally:
        leased = pipe.zcard(self.keys.built("inflight"))
        records = pipe.hlen(self.keys.built("task"))
        return Tally(records - leased, leased, pipe.hlen(self.keys.live["dead"]))

    def _backlog(self, partition: bytes) -> str:
        return self.keys.live.backlog(partition.decode())

    def _transaction(self, watched: Sequence[str], change: Callable[[Pipe], _Result]) -> _Result:
        """Read, then write in one step; done again when a watched key changed in between."""
        for _ in range(_ATTEMPTS):
            with self._client.pipeline() as pipe:
                try:
                    pipe.watch(*watched)
                    result = change(pipe)
                    pipe.execute()
                except WatchError:  # redis-py raises it for a lost connection too
                    continue
                return result
        raise self._still_written()

    def _still_written(self) -> MigrationRefused:
        return MigrationRefused(
            self.keys.live.prefix,
            "somebody goes on writing them: stop the producers and workers of release 0.2, then "
            "run this again; what was converted stays converted",
        )
