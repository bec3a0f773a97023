"""The text form of arguments, records and replies, as ``scripts/`` reads and writes them."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtrr_queue.model import (
    PRIORITY_DEFAULT,
    SHORT_EPOCH_MS,
    SHORT_RECORD,
    DeadLetter,
    Lease,
    NewItem,
    TriggerBudget,
    Wake,
)
from vtrr_queue.talk import SHORTEST_REPLY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtrr_queue.talk import Reply

CHUNK_ITEMS = 500
"""Most items one enqueue script stores, so that it blocks the server for about a millisecond."""

CHUNK_BYTES = 1_000_000
"""Most body bytes one enqueue script stores."""


PACKED = b"\xff"
"""First byte of a stored id that was a UUID."""

UUID_LENGTH, PACKED_LENGTH = 36, 17

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease as others see it.

    Attributes:
        item_id: The item.
        token: Fencing token.
        partition: Partition of the item.
        holder: Who runs it.
        started_at_ms: When it was leased, server clock.
        expires_at_ms: Expiry, server clock.
        charge: What its partition has been charged so far.
    """

    item_id: str
    token: str
    partition: str
    holder: str
    started_at_ms: int
    expires_at_ms: int
    charge: float


def format_number(value: float) -> str:
    """A number as scripts and records carry it: short, exact, never in words."""
    return str(int(value)) if value == int(value) else repr(float(value))


def format_mark(item: NewItem) -> str:
    """Weight, priority and delay (ms) as enqueue takes them: "1" for none, "1.0" for a given 1."""
    text = "1" if item.weight is None else format_number(item.weight)
    if text == "1" and item.weight is not None:
        text = "1.0"
    text = text if item.priority == PRIORITY_DEFAULT else f"{text}@{item.priority}"
    return f"{text}+{item.delay_ms}" if item.delay_ms else text


def pack_id(item_id: str) -> bytes:
    """An item id as it is stored: of a UUID, as Celery makes them, only its 16 bytes.

    They come after a byte that no UTF-8 text has. Other ids, and UUIDs in another form, stay.
    """
    if len(item_id) == UUID_LENGTH and _UUID.match(item_id):
        return PACKED + bytes.fromhex(item_id.replace("-", ""))
    return item_id.encode()


def unpack_id(stored: bytes) -> str:
    """The item id of what :func:`pack_id` made."""
    if stored[:1] != PACKED or len(stored) != PACKED_LENGTH:
        return stored.decode()
    text = stored[1:].hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def read_lease(item_id: bytes, token: str, expiry: int, record: bytes) -> Lease:
    """Build a :class:`Lease` from a reply."""
    head, partition, body = _split(record)
    return Lease(
        item_id=unpack_id(item_id), token=token, partition=partition, timeouts=int(head[1] or 0),
        retries=int(head[2] or 0), expires_at_ms=expiry, weight=_weight(head[0]), body=body,
        since_ms=_since(head[3]),
    )  # fmt: skip


def read_record(record: bytes) -> tuple[str, float, int, int, bytes]:
    """Take a task record apart: partition, weight, timeouts, retries, body."""
    head, partition, body = _split(record)
    return partition, _weight(head[0]), int(head[1] or 0), int(head[2] or 0), body


def read_since(record: bytes) -> int | None:
    """When the item of a task record became servable, server clock, ms; None when not known."""
    return _since(_split(record)[0][3])


def read_priority(record: bytes) -> int:
    """Priority of the item of a task record."""
    mark = _split(record)[0][0].partition(b"@")[2]
    return int(mark or PRIORITY_DEFAULT)


def read_held_lease(token: bytes, text: bytes) -> HeldLease:
    """Take a lease record apart, see ``scripts/lib/hold_lease.lua``."""
    start, charge, expiry, id_length, partition_length, rest = text.split(b" ", 5)
    middle = int(id_length)
    last, charged = middle + int(partition_length), float(charge.partition(b"/")[0])
    return HeldLease(
        item_id=unpack_id(rest[:middle]), token=token.decode(),
        partition=rest[middle:last].decode(), holder=rest[last:].decode(),
        started_at_ms=int(start), expires_at_ms=int(expiry), charge=charged,
    )  # fmt: skip


REASON_MAX, EXCEPTION_MAX, TRACEBACK_MAX = 1_000, 4_000, 20_000
"""Longest texts a dead letter keeps, characters; of a traceback the end."""


def format_note(reason: str, exception: str, traceback: str) -> bytes:
    """Why an item died, as ``scripts/lib/make_letter.lua`` keeps it."""
    texts = (reason[:REASON_MAX], exception[:EXCEPTION_MAX], traceback[-TRACEBACK_MAX:])
    return "\0".join(text.replace("\0", " ") for text in texts).encode("utf-8", "replace")


def read_dead_letter(item_id: bytes, text: bytes) -> DeadLetter:
    """Take a dead letter apart, see ``scripts/lib/make_letter.lua``."""
    died_at, length, rest = text.split(b" ", 2)
    partition, weight, timeouts, retries, body = read_record(rest[int(length) :])
    note = rest[: int(length)].decode("utf-8", "replace").split("\0")
    reason, exception, traceback, started = (note + [""] * 3)[:4]
    return DeadLetter(
        item_id=unpack_id(item_id), partition=partition, reason=reason, exception=exception,
        traceback=traceback, started_at_ms=int(started) if started else None,
        died_at_ms=int(died_at), timeouts=timeouts, retries=retries, weight=weight, body=body,
    )  # fmt: skip


def trigger_arguments(budget: TriggerBudget) -> tuple[str, str]:
    """What every script that may send triggers takes, "" for none, and the prefix of new ids."""
    if not budget.max_outstanding:
        return "", ""
    prefix = secrets.token_hex(8)
    return f"{budget.max_outstanding} {budget.timeout_ms} {prefix}", prefix


def read_wake(reply: Reply, prefix: str) -> Wake:
    """The common part of replies: triggers to send, server time, waiting items, next wake."""
    if len(reply) == SHORTEST_REPLY:
        return Wake((), None, int(reply[2]), 0)
    due = int(reply[5]) if reply[5] else None
    triggers = tuple(f"{prefix}-{n}" for n in range(1, int(reply[3]) + 1))
    return Wake(triggers, due, int(reply[2]), int(reply[4]))


def chunks_of(items: Sequence[NewItem]) -> list[list[NewItem]]:
    """Split items into what one enqueue script stores: by count and by bytes."""
    chunks: list[list[NewItem]] = []
    size = 0
    for item in items:
        size += len(item.body)
        if not chunks or size > CHUNK_BYTES or len(chunks[-1]) == CHUNK_ITEMS:
            chunks.append([])
            size = len(item.body)
        chunks[-1].append(item)
    return chunks


def _split(record: bytes) -> tuple[list[bytes], str, bytes]:
    """Weight, timeouts, retries and since; partition; body. See ``scripts/lib/record.lua``."""
    if record[0] >= SHORT_RECORD:
        middle = 6 + record[0] - SHORT_RECORD
        since = SHORT_EPOCH_MS + int.from_bytes(record[1:6], "big")
        return [b"", b"", b"", b"%x" % since], record[6:middle].decode(), record[middle:]
    *head, length, rest = record.split(b" ", 5)
    at = int(length)
    return head, rest[:at].decode(), rest[at:]


def _weight(mark: bytes) -> float:
    return float(mark.partition(b"@")[0] or 1)


def _since(text: bytes) -> int | None:
    return int(text, 16) if text else None
