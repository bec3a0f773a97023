"""Single items: where one is, and which come next.

Invariants: nothing is written; payloads stay serialised; a command looks at a bounded number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vtrr_queue.audit import at_once
from vtrr_queue.model import PRIORITY_DEFAULT
from vtrr_queue.records import (
    pack_id,
    read_dead_letter,
    read_priority,
    read_record,
    read_since,
    unpack_id,
)
from vtrr_queue.roster import Roster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtrr_queue.engine import Engine
    from vtrr_queue.records import HeldLease

Place = Literal["waiting", "delayed", "running", "dead"]


@dataclass(frozen=True, slots=True)
class Seen:
    """An item.

    Attributes:
        item_id: The item.
        partition: Its partition.
        place: Where it is.
        priority: Place inside its partition, 0 first.
        weight: Turns that it uses.
        timeouts: Runs that were lost.
        retries: Celery retries.
        due_at_ms: When a delayed one becomes due, server clock; else None.
        holder: Who runs it; empty when nobody does.
        started_at_ms: Start of the run; None when it does not run.
        expires_at_ms: When the lease ends; None when it does not run.
        cancelled: Whether it runs and will not run again.
        reason: Why it is dead; empty when it is not.
        since_ms: When it could be served first, or again after a retry, server clock; of a delayed
            one when it will be. None when not known.
        body: Opaque bytes, see :mod:`vtrr_queue.payload`.
    """

    item_id: str
    partition: str
    place: Place
    priority: int
    weight: float
    timeouts: int
    retries: int
    due_at_ms: int | None = None
    holder: str = ""
    started_at_ms: int | None = None
    expires_at_ms: int | None = None
    cancelled: bool = False
    reason: str = ""
    since_ms: int | None = None
    body: bytes = field(default=b"", repr=False)


class Items:
    """Items of the queue of an engine.

    Args:
        engine: Its connection and its key names are used.
    """

    def __init__(self, engine: Engine) -> None:
        self._client, self._keys = engine.client, engine.keys

    def find(self, item_id: str) -> Seen | None:
        """An item by its id; None when it is unknown, as when it is done."""
        keys, stored = self._keys, pack_id(item_id)
        record, letter, due, cancelled = at_once(
            self._client, ("HGET", keys["task"], stored), ("HGET", keys["dead"], stored),
            ("ZSCORE", keys["delayed"], stored), ("HGET", keys["cancelled"], stored),
        )  # fmt: skip
        if record:
            lease = self._lease(item_id) if due is None else None
            return _seen(item_id, record, lease, due, is_cancelled=cancelled is not None)
        if letter:
            dead = read_dead_letter(stored, letter)
            return Seen(
                item_id, dead.partition, "dead", PRIORITY_DEFAULT, dead.weight, dead.timeouts,
                dead.retries, reason=dead.reason, body=dead.body,
            )  # fmt: skip
        return None

    def next_of(self, partition: str, limit: int) -> list[Seen]:
        """The items of a partition that come next.

        Args:
            partition: The partition.
            limit: Most items to return.
        """
        (levels,) = self._client.read(("HGET", self._keys["levels"], partition))
        found: list[Seen] = []
        for level in sorted({*map(int, (levels or b"").decode()), PRIORITY_DEFAULT}):
            left = limit - len(found)
            if left > 0:
                name = self._keys.backlog(partition, level)
                (ids,) = self._client.read(("LRANGE", name, 0, left - 1))
                found += self._read(ids)
        return found

    def next_served(self, limit: int) -> list[Seen]:
        """The next item of each of the partitions whose turn comes next."""
        (names,) = self._client.read(("ZRANGE", self._keys["queue"], 0, limit - 1))
        return [seen for name in names for seen in self.next_of(name.decode(), 1)]

    def _read(self, ids: list[bytes]) -> Iterator[Seen]:
        if not ids:
            return
        texts = self._client.read(*(("HGET", self._keys["task"], each) for each in ids))
        for item_id, text in zip(ids, texts, strict=True):
            if text:  # else it was cancelled
                yield _seen(unpack_id(item_id), text, None, None, is_cancelled=False)

    def _lease(self, item_id: str) -> HeldLease | None:
        leases = Roster(self._client, self._keys).leases()
        return next((lease for lease in leases if lease.item_id == item_id), None)


def _seen(
    item_id: str, record: bytes, lease: HeldLease | None, due: bytes | None, *, is_cancelled: bool
) -> Seen:
    partition, weight, timeouts, retries, body = read_record(record)[:5]
    place: Place = "running" if lease else "waiting" if due is None else "delayed"
    return Seen(
        item_id, partition, place, read_priority(record), weight, timeouts, retries,
        due_at_ms=None if due is None else int(float(due)),
        holder=lease.holder if lease else "",
        started_at_ms=lease.started_at_ms if lease else None,
        expires_at_ms=lease.expires_at_ms if lease else None,
        cancelled=is_cancelled and lease is not None, since_ms=read_since(record), body=body,
    )  # fmt: skip
