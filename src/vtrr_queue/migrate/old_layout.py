"""What release 0.2 kept in Redis, and how one of its items reads in ours.

Invariants: no other module spells a key name of 0.2; nothing here talks to a server; an item
that cannot be read keeps its payload byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vtrr_queue.model import WEIGHT_MAX, WEIGHT_MIN
from vtrr_queue.payload import encode
from vtrr_queue.records import format_number, pack_id

if TYPE_CHECKING:
    from vtrr_queue.keys import QueueKeys

OLD_TYPES = {
    "queue": "zset",  # item id -> virtual time; equal times go by id
    "current_virtual_time": "string",
    "partition_virtual_time": "hash",  # partition -> virtual time
    "task": "hash",  # id -> JSON call of a waiting item
    "meta": "hash",  # id -> "weight:partition"
    "inflight": "zset",  # id -> lease expiry (s)
    "inflight_task": "hash",  # id -> JSON call of a leased item
    "lease": "hash",  # id -> token
    "timeouts": "hash",  # id -> count
}
"""Keys of 0.2 and their types."""

ONLY_OLD = ("meta", "inflight_task", "timeouts")
"""Keys of 0.2 whose names this release does not use."""

BUILT = ("queue", "task", "inflight", "lease")
"""Keys of this release that are built beside the old ones of the same name."""

MIGRATING = "migrating"
"""Value of ``schema`` during a conversion; every script refuses it."""

HOLDER = "vtrr-queue 0.2"
"""Holder of the leases carried over, for people who look."""

_LAST_EXPIRY_SECONDS = 32_503_680_000  # year 3000: a score may be anything


@dataclass(frozen=True, slots=True)
class MigrationKeys:
    """Where things are during a conversion.

    A dot and not a colon parts the layout from the key: ``vtrr:files:v2:queue`` would be the
    live key of a queue that is called ``files:v2``.

    Args:
        live: Keys of the queue.
    """

    live: QueueKeys

    def aside(self, key: str) -> str:
        """Where a key of 0.2 is kept until its items are converted."""
        return self.live[f"v2.{key}"]

    def built(self, key: str) -> str:
        """Where one of the :data:`BUILT` keys grows until all are put in place at once."""
        return self.live[f"v3.{key}"]


@dataclass(frozen=True, slots=True)
class OldItem:
    """What 0.2 kept of one item.

    Attributes:
        item_id: The item.
        call: JSON ``{"task_name", "args", "kwargs"}``.
        meta: ``weight:partition``; the partition may contain colons.
        timeouts: Leases that expired; absent means none.
    """

    item_id: bytes
    call: bytes | None = field(repr=False)
    meta: bytes | None
    timeouts: bytes | None


@dataclass(frozen=True, slots=True)
class Converted:
    """An item as this release keeps it.

    Attributes:
        item_id: The item.
        partition: Its partition; empty when 0.2 did not tell.
        weight: As records carry it.
        record: Value for the ``task`` hash.
        fault: Why it cannot run and becomes a dead letter, empty for a sound item.
    """

    item_id: bytes
    partition: bytes
    weight: str
    record: bytes = field(repr=False)
    fault: str = ""

    @property
    def stored_id(self) -> bytes:
        """The item as this release's keys name it."""
        return stored_id(self.item_id)


def stored_id(item_id: bytes) -> bytes:
    """An id of 0.2 as this release's keys have it."""
    try:
        return pack_id(item_id.decode())
    except UnicodeDecodeError:
        return item_id


def convert(item: OldItem, fault: str = "") -> Converted:
    """Turn an item of 0.2 into ours.

    Args:
        item: What 0.2 kept.
        fault: Why it cannot run whatever its content is.

    Source:
        ``scripts/lib/record.lua``.
    """
    _, _, partition = (item.meta or b"").partition(b":")
    weight, timeouts, body = "1", 0, item.call or b""
    try:
        timeouts = int(item.timeouts or 0)
        weight = _read_weight(item.meta)
        partition.decode()
        item.item_id.decode()
        body = _read_call(item.call)
    except (ValueError, RecursionError) as exc:
        fault = fault or f"cannot be read: {exc or type(exc).__name__}"
    head = f"{weight} {max(0, timeouts)} 0  {len(partition)} ".encode()
    return Converted(item.item_id, partition, weight, head + partition + body, fault)


def dead_letter(converted: Converted, now_ms: int) -> bytes:
    """Value for the ``dead`` hash.

    Source:
        ``scripts/bury.lua``.
    """
    reason = f"release 0.2: {converted.fault}"[:500].encode(errors="replace")
    return f"{now_ms} {len(reason)} ".encode() + reason + converted.record


def lease_expiry_ms(expiry_seconds: float) -> int:
    """Expiry of a lease in our unit, ms."""
    return round(min(max(expiry_seconds, 0), _LAST_EXPIRY_SECONDS) * 1000)


def lease_record(converted: Converted, expiry_seconds: float, now_ms: int) -> tuple[bytes, int]:
    """Value for the ``lease`` hash, and the expiry in ms.

    Args:
        converted: The leased item.
        expiry_seconds: Score of 0.2, s.
        now_ms: Start of the lease as far as this release can know.

    Source:
        ``scripts/lib/hold_lease.lua``.
    """
    expiry = lease_expiry_ms(expiry_seconds)
    item_id, partition = converted.stored_id, converted.partition
    head = f"{now_ms} {converted.weight} {expiry} {len(item_id)} {len(partition)} ".encode()
    return head + item_id + partition + HOLDER.encode(), expiry


def substitute_token(item_id: bytes) -> bytes:
    """Token of a lease for which 0.2 kept none, or one that another item has too."""
    return hashlib.sha256(HOLDER.encode() + b"\0" + item_id).hexdigest()[:32].encode()


def _read_weight(meta: bytes | None) -> str:
    if meta is None:
        raise ValueError("no weight and partition are stored")
    text, _, partition = meta.partition(b":")
    weight = float(text)
    if not partition or not math.isfinite(weight) or weight <= 0:
        raise ValueError(f"weight and partition are {meta!r}")
    return format_number(min(max(weight, WEIGHT_MIN), WEIGHT_MAX))


def _read_call(text: bytes | None) -> bytes:
    if text is None:
        raise ValueError("no payload is stored")
    call = json.loads(text)
    if not isinstance(call, dict):
        raise ValueError(f"payload is no JSON object but {type(call).__name__}")  # noqa: TRY004 - data
    name, args, kwargs = (call.get(key) for key in ("task_name", "args", "kwargs"))
    if not isinstance(name, str) or not name or "\n" in name:
        raise ValueError(f"task name is {name!r}")
    if isinstance(args, list) and isinstance(kwargs, dict):
        return encode(name, args, kwargs)
    raise ValueError("args is no list or kwargs no object")
