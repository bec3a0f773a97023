"""Moves a queue's items from the keys of 0.2 to ours, a batch at a time.

Invariants: an item is in one of the two layouts after every command, because a batch is written
and removed in one MULTI/EXEC that WATCH guards; ``schema`` says ``migrating`` from the first
change to the last, so no engine works on half a queue; a conversion that died goes on where it
stopped.

Three steps. *Set aside*: the keys of 0.2 are renamed, which takes them from processes of 0.2 that
still run. *Convert*: leased items, waiting items in their old order, then payloads without a
place, into ``v3.*`` keys where the names collide. *Put in place*: when no key of 0.2 has come
back, the built keys get their names and ``schema`` its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import WatchError

from vtrr_queue.client import private_pool
from vtrr_queue.errors import VTRRError
from vtrr_queue.keys import SCHEMA, SCRIPT_KEYS, QueueKeys
from vtrr_queue.migrate.old_layout import (
    BUILT,
    MIGRATING,
    OLD_TYPES,
    ONLY_OLD,
    Converted,
    MigrationKeys,
    OldItem,
    convert,
    dead_letter,
    lease_record,
    substitute_token,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SOCKET_TIMEOUT = 30.0
"""Bound on connecting and on one reply, s."""

BATCH = 500
"""Items moved in one transaction; it blocks the server for some milliseconds."""

_SOURCES = ("inflight", "queue", "task", "inflight_task")
_ATTEMPTS = 3
_STORED_TYPES = {"running": "hash", "dead": "hash", "dead_index": "zset"}
_NO_PLACE = "was neither waiting nor leased"


class MigrationRefused(VTRRError):
    """The keys are not what a conversion may touch; nothing was changed by this step.

    Args:
        prefix: Key prefix of the queue.
        reason: What was found, and what to do.
    """

    def __init__(self, prefix: str, reason: str) -> None:
        self.prefix, self.reason = prefix, reason
        super().__init__(f"keys under {prefix!r}: {reason}")


@dataclass(frozen=True, slots=True)
class Found:
    """What stands under a queue's prefix.

    Attributes:
        schema: Value of ``schema``, empty without one.
        live: Keys of 0.2, by their short names, under their own names.
        aside: Those set aside by a conversion that did not end.
    """

    schema: str
    live: tuple[str, ...]
    aside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many items went where.

    Attributes:
        waiting: Items in backlogs.
        leased: Items whose lease was kept.
        dead: Items that cannot be run, kept as dead letters.
        repeated: Ids that had been converted already; the first one stands.
    """

    waiting: int = 0
    leased: int = 0
    dead: int = 0
    repeated: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.waiting + other.waiting,
            self.leased + other.leased,
            self.dead + other.dead,
            self.repeated + other.repeated,
        )

    @property
    def items(self) -> int:
        """Items moved."""
        return self.waiting + self.leased + self.dead + self.repeated


class Migration:
    """The conversion of one queue.

    Args:
        redis_client: A ``redis.Redis``; its settings are cloned, it is not used itself.
        name: Queue name.
        batch: Items moved in one transaction.
    """

    def __init__(self, redis_client: object, name: str, batch: int = BATCH) -> None:
        self.keys = MigrationKeys(QueueKeys(name))
        self.batch = batch
        # redis-py types every reply as perhaps awaitable.
        self._client: Any = redis.Redis(
            connection_pool=private_pool(redis_client, SOCKET_TIMEOUT)
        )

    @property
    def prefix(self) -> str:
        """Common start of the queue's keys."""
        return self.keys.live.prefix

    def close(self) -> None:
        """Close every connection."""
        self._client.connection_pool.disconnect()

    def look(self) -> Found:
        """Say what stands under the prefix; read-only.

        Raises:
            MigrationRefused: The keys are of no layout that can be converted.
        """
        live, aside = self.keys.live, self.keys.aside
        with self._client.pipeline(transaction=False) as pipe:
            pipe.get(live["schema"])
            for key in OLD_TYPES:
                pipe.type(live[key]).type(aside(key))
            schema, *types = pipe.execute()
        found = Found(
            (schema or b"").decode(errors="replace"),
            tuple(key for key, kind in zip(OLD_TYPES, types[::2], strict=True) if kind != b"none"),
            tuple(key for key, kind in zip(OLD_TYPES, types[1::2], strict=True) if kind != b"none"),
        )
        self._refuse_others(found, dict(zip(OLD_TYPES, types[::2], strict=True)))
        return found

    def read(self, found: Found) -> Iterator[tuple[Converted, float | None]]:
        """Read every item as it would be converted, with its expiry (s) when leased; read-only.

        Args:
            found: What :meth:`look` said.
        """
        name = self.keys.aside if found.schema == MIGRATING else self.keys.live.__getitem__
        for source in ("inflight", "queue"):
            start = 0
            while entries := self._client.zrange(
                name(source), start, start + self.batch - 1, withscores=True
            ):
                start += len(entries)
                items = self._convert(source, [entry[0] for entry in entries], name)
                for item, (_, score) in zip(items, entries, strict=True):
                    yield item, score if source == "inflight" else None

    def set_aside(self) -> None:
        """Take the keys of 0.2 away and close the queue, in one step.

        Raises:
            MigrationRefused: They change all the time.
        """

        def change(pipe: Any) -> None:
            present = [key for key in OLD_TYPES if pipe.exists(self.keys.live[key])]
            kept = pipe.get(self.keys.live["schema"])
            pipe.multi()
            if kept is None and present:
                self._rename_old(pipe, present)

        self._transaction([self.keys.live[key] for key in ("schema", *OLD_TYPES)], change)

    def batches(self) -> Iterator[Tally]:
        """Convert what was set aside; each step is one batch that has been moved.

        Raises:
            MigrationRefused: A key that would be written has another type.
        """
        self._check_types({self.keys.live[key]: kind for key, kind in _STORED_TYPES.items()})
        for source in _SOURCES:
            watched = [self.keys.live["schema"], self.keys.aside(source)]
            while tally := self._transaction(watched, partial(self._move, source)):
                yield tally

    def put_in_place(self) -> bool:
        """Open the queue in our layout, or set aside once more what 0.2 wrote meanwhile.

        Returns:
            Whether the conversion is over.
        """
        live, aside, built = self.keys.live, self.keys.aside, self.keys.built

        def change(pipe: Any) -> bool:
            if pipe.get(live["schema"]) != MIGRATING.encode():
                pipe.multi()
                return True
            if pipe.exists(*map(aside, _SOURCES)):  # another conversion set more aside
                pipe.multi()
                return False
            back = [key for key in OLD_TYPES if pipe.exists(live[key])]
            ready = [key for key in BUILT if pipe.exists(built(key))]
            dead = pipe.exists(live["dead"])
            pipe.multi()
            pipe.unlink(*map(aside, OLD_TYPES))
            if back:
                self._rename_old(pipe, back)
                return False
            for key in ready:
                pipe.rename(built(key), live[key])
            if "task" in ready or dead:
                pipe.set(live["schema"], SCHEMA)
            else:
                pipe.delete(live["schema"])
            return True

        watched = [live["schema"], *(live[key] for key in OLD_TYPES), *map(aside, _SOURCES)]
        return bool(self._transaction(watched, change))

    def run(self, report: Callable[[Tally], object]) -> Tally:
        """Convert the queue, or go on where an earlier call stopped.

        Args:
            report: Gets the running total after each batch.

        Returns:
            What this call moved.

        Raises:
            MigrationRefused: The keys cannot be converted, or 0.2 goes on writing.
        """
        total = Tally()
        self.set_aside()
        for _ in range(_ATTEMPTS):
            for tally in self.batches():
                total += tally
                report(total)
            if self.put_in_place():
                return total
        raise MigrationRefused(
            self.prefix,
            "release 0.2 goes on writing them: stop its producers and workers, then run this "
            "again; what was converted stays converted",
        )

    def _move(self, source: str, pipe: Any) -> Tally | None:
        aside = self.keys.aside
        entries = self._entries(source, pipe)
        if not entries or pipe.get(self.keys.live["schema"]) != MIGRATING.encode():
            pipe.multi()
            return None
        ids = [item_id for item_id, _ in entries]
        no_place = _NO_PLACE if source in {"task", "inflight_task"} else ""
        items = self._convert(source, ids, aside, no_place)
        known = self._known(ids)
        fresh = [
            (item, score)
            for item, (item_id, score) in zip(items, entries, strict=True)
            if item_id not in known
        ]
        dead = [item for item, _ in fresh if item.fault]
        sound = [(item, score) for item, score in fresh if not item.fault]
        self._check_types({self._backlog(item): "list" for item, _ in sound})
        now_ms = self._now_ms()
        tokens = self._tokens(sound) if source == "inflight" else []
        pipe.multi()
        self._store_dead(pipe, dead, now_ms)
        if source == "inflight":
            self._store_leased(pipe, sound, tokens, now_ms)
        else:
            self._store_waiting(pipe, [item for item, _ in sound])
        if OLD_TYPES[source] == "zset":
            pipe.zrem(aside(source), *ids)
        for key in ("task", "inflight_task", "meta", "lease", "timeouts"):
            pipe.hdel(aside(key), *ids)
        leased = len(sound) if source == "inflight" else 0
        return Tally(len(sound) - leased, leased, len(dead), len(known))

    def _entries(self, source: str, pipe: Any) -> list[tuple[bytes, float]]:
        """The next ids of a source, at most about a batch, with their scores."""
        if OLD_TYPES[source] == "zset":
            found: list[tuple[bytes, float]] = pipe.zrange(
                self.keys.aside(source), 0, self.batch - 1, withscores=True
            )
            return found
        cursor = None
        while cursor != 0:
            cursor, page = pipe.hscan(self.keys.aside(source), cursor or 0, count=self.batch)
            if page:
                return [(item_id, 0.0) for item_id in page]
        return []

    def _convert(
        self,
        source: str,
        ids: Sequence[bytes],
        name: Callable[[str], str],
        fault: str = "",
    ) -> list[Converted]:
        first, second = ("task", "inflight_task")[:: -1 if "inflight" in source else 1]
        with self._client.pipeline(transaction=False) as pipe:
            for key in (first, second, "meta", "timeouts"):
                pipe.hmget(name(key), ids)
            columns = pipe.execute()
        return [
            convert(OldItem(item_id, call if call is not None else other, meta, timeouts), fault)
            for item_id, call, other, meta, timeouts in zip(ids, *columns, strict=True)
        ]

    def _known(self, ids: Sequence[bytes]) -> set[bytes]:
        with self._client.pipeline(transaction=False) as pipe:
            for item_id in ids:
                pipe.hexists(self.keys.built("task"), item_id)
                pipe.hexists(self.keys.live["dead"], item_id)
            hits = pipe.execute()
        return {
            item_id
            for item_id, task, dead in zip(ids, hits[::2], hits[1::2], strict=True)
            if task or dead
        }

    def _tokens(self, leased: Sequence[tuple[Converted, float]]) -> list[bytes]:
        """The old tokens, each once: our leases are found by them."""
        if not leased:
            return []
        old = self._client.hmget(self.keys.aside("lease"), [item.item_id for item, _ in leased])
        taken = {token for token in self._client.hkeys(self.keys.built("lease"))}
        tokens: list[bytes] = []
        for (item, _), token in zip(leased, old, strict=True):
            own = token if token and token not in taken else substitute_token(item.item_id)
            taken.add(own)
            tokens.append(own)
        return tokens

    def _store_dead(self, pipe: Any, dead: Sequence[Converted], now_ms: int) -> None:
        for item in dead:
            pipe.hset(self.keys.live["dead"], item.item_id, dead_letter(item, now_ms))
            pipe.zadd(self.keys.live["dead_index"], {item.item_id: now_ms})

    def _store_leased(
        self,
        pipe: Any,
        leased: Sequence[tuple[Converted, float]],
        tokens: Sequence[bytes],
        now_ms: int,
    ) -> None:
        for (item, score), token in zip(leased, tokens, strict=True):
            record, expiry_ms = lease_record(item, score, now_ms)
            pipe.hset(self.keys.built("task"), item.item_id, item.record)
            pipe.hset(self.keys.built("lease"), token, record)
            pipe.zadd(self.keys.built("inflight"), {token: expiry_ms})
            pipe.hincrby(self.keys.live["running"], item.partition, 1)

    def _store_waiting(self, pipe: Any, items: Sequence[Converted]) -> None:
        if items:
            records = {item.item_id: item.record for item in items}
            pipe.hset(self.keys.built("task"), mapping=records)
        in_order = sorted(items, key=lambda item: item.partition)  # stable
        for partition, group in groupby(in_order, key=lambda item: item.partition):
            members = list(group)
            pipe.rpush(self._backlog(members[0]), *(item.item_id for item in members))
            pipe.zadd(self.keys.built("queue"), {partition: 0})

    def _rename_old(self, pipe: Any, present: Sequence[str]) -> None:
        pipe.set(self.keys.live["schema"], MIGRATING)
        for key in present:
            pipe.rename(self.keys.live[key], self.keys.aside(key))

    def _backlog(self, item: Converted) -> str:
        return self.keys.live.backlog(item.partition.decode())

    def _check_types(self, expected: dict[str, str]) -> None:
        """A transaction that met another type would be carried out in part."""
        with self._client.pipeline(transaction=False) as pipe:
            for key in expected:
                pipe.type(key)
            kinds = pipe.execute() if expected else []
        for (key, kind), found in zip(expected.items(), kinds, strict=True):
            if found not in {b"none", kind.encode()}:
                raise MigrationRefused(
                    self.prefix, f"{key!r} holds a {found.decode()}, a {kind} is due there"
                )

    def _refuse_others(self, found: Found, types: dict[str, bytes]) -> None:
        reason = ""
        if found.schema == SCHEMA:
            strangers = [key for key in found.live if key in ONLY_OLD]
            if strangers:
                reason = (
                    f"they have layout {SCHEMA}, but 0.2 has written {', '.join(strangers)} "
                    "since: stop the process of release 0.2 that still uses this queue"
                )
        elif found.schema not in {"", MIGRATING}:
            reason = f"they have layout {found.schema!r}, which is not that of release 0.2"
        elif found.aside and not found.schema:
            reason = (
                "a conversion has begun, but its mark was deleted: set "
                f"{self.keys.live['schema']!r} to {MIGRATING!r} and run this again"
            )
        else:
            reason = _foreign(found.live, types)
        if reason:
            raise MigrationRefused(self.prefix, reason)

    def _now_ms(self) -> int:
        seconds, microseconds = self._client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def _transaction[Result]...
