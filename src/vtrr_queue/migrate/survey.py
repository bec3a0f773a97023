"""What stands under a queue's prefix, and whether a conversion may touch it; read-only.

Invariant: keys that are of neither layout, or of both, are refused before anything is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtrr_queue.errors import VTRRError
from vtrr_queue.keys import SCHEMA, is_our_layout
from vtrr_queue.migrate.old_layout import (
    BUILT,
    MIGRATING,
    OLD_TYPES,
    ONLY_OLD,
    Converted,
    MigrationKeys,
    OldItem,
    convert,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Client = Any
"""A ``redis.Redis`` that gives bytes; redis-py declares every reply as perhaps awaitable."""


class MigrationRefused(VTRRError):
    """The keys are not what a conversion may touch; this step has changed nothing.

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
        live: Names out of :data:`OLD_TYPES` that exist; in our layout some are our own.
        begun: Whether a conversion has begun and not ended.
    """

    schema: str
    live: tuple[str, ...]
    begun: bool


def look(client: Client, keys: MigrationKeys) -> Found:
    """Say what stands under the prefix.

    Args:
        client: A client that gives bytes.
        keys: Keys of the queue.

    Raises:
        MigrationRefused: The keys are of no layout that can be converted.
    """
    with client.pipeline(transaction=False) as pipe:
        pipe.get(keys.live["schema"])
        pipe.exists(*map(keys.aside, OLD_TYPES), *map(keys.built, BUILT))
        for key in OLD_TYPES:
            pipe.type(keys.live[key])
        schema, begun, *kinds = pipe.execute()
    live = {
        key: kind.decode() for key, kind in zip(OLD_TYPES, kinds, strict=True) if kind != b"none"
    }
    found = Found((schema or b"").decode(errors="replace"), tuple(live), begun > 0)
    reason = _reason_to_refuse(found, live, keys)
    if reason:
        raise MigrationRefused(keys.live.prefix, reason)
    return found


def read_all(
    client: Client, keys: MigrationKeys, found: Found, batch: int
) -> Iterator[tuple[Converted, float | None]]:
    """Read every item that has a place, as it would be converted.

    Args:
        client: A client that gives bytes.
        keys: Keys of the queue.
        found: What :func:`look` said.
        batch: Items read in one round trip.

    Yields:
        The item and, when it is leased, the expiry (s).
    """
    name = keys.aside if found.schema == MIGRATING else keys.live.__getitem__
    for source in ("inflight", "queue"):
        start = 0
        while entries := client.zrange(name(source), start, start + batch - 1, withscores=True):
            start += len(entries)
            items = read_batch(client, source, [item_id for item_id, _ in entries], name)
            for item, (_, score) in zip(items, entries, strict=True):
                yield item, score if source == "inflight" else None


def read_batch(
    client: Client,
    source: str,
    ids: Sequence[bytes],
    name: Callable[[str], str],
    fault: str = "",
) -> list[Converted]:
    """Read items as they would be converted.

    Args:
        client: A client that gives bytes.
        source: Key of 0.2 in which the ids stand.
        ids: The items.
        name: Gives the full name of a key of 0.2.
        fault: Why they cannot run whatever their content is.
    """
    calls = ("inflight_task", "task") if "inflight" in source else ("task", "inflight_task")
    with client.pipeline(transaction=False) as pipe:
        for key in (*calls, "meta", "timeouts"):
            pipe.hmget(name(key), ids)
        columns = pipe.execute()
    return [
        convert(OldItem(item_id, other if call is None else call, meta, timeouts), fault)
        for item_id, call, other, meta, timeouts in zip(ids, *columns, strict=True)
    ]


def check_types(client: Client, prefix: str, expected: Mapping[str, str]) -> None:
    """Refuse keys of another type: a transaction that met one would be carried out in part.

    Args:
        client: A client that gives bytes.
        prefix: Key prefix of the queue.
        expected: Mapping key name -> type it must have when it exists.

    Raises:
        MigrationRefused: One has another type.
    """
    with client.pipeline(transaction=False) as pipe:
        for key in expected:
            pipe.type(key)
        kinds = pipe.execute()
    for (key, kind), found in zip(expected.items(), kinds, strict=True):
        if found not in {b"none", kind.encode()}:
            raise MigrationRefused(
                prefix, f"{key!r} is a {found.decode()}, but a {kind} has to go there"
            )


def _reason_to_refuse(found: Found, live: Mapping[str, str], keys: MigrationKeys) -> str:
    if is_our_layout(found.schema):
        return _reason_of_mixture(live)
    if found.schema not in {"", MIGRATING}:
        return f"they have layout {found.schema!r}, which is not that of release 0.2"
    if found.begun and not found.schema:
        return (
            "a conversion has begun, but its mark is gone: set "
            f"{keys.live['schema']!r} to {MIGRATING!r} and run this again"
        )
    for key, kind in live.items():
        if kind != OLD_TYPES[key]:
            return f"{key!r} is a {kind}, in release 0.2 it is a {OLD_TYPES[key]}"
    if {"queue", "inflight"} & live.keys() and "meta" not in live:
        return "there is no 'meta' beside the items, so they are not of release 0.2"
    return ""


def _reason_of_mixture(live: Mapping[str, str]) -> str:
    strangers = [key for key in live if key in ONLY_OLD]
    if not strangers:
        return ""
    return (
        f"they have layout {SCHEMA}, but release 0.2 has written {', '.join(strangers)} since: "
        "stop every process of 0.2 that uses this queue; docs/migration.md says how to go on"
    )
