"""Looks for settings of the server that put a queue at risk; reads, never writes.

Each check is a function that gets what was read and yields findings, so that a finding is tested
against a real server with that very setting.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vtrr_queue.keys import SCHEMA, is_our_layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vtrr_queue.client import ScriptClient
    from vtrr_queue.keys import QueueKeys

Severity = Literal["error", "warning", "info"]

_FIELD = re.compile(r"^(\w+):(.*?)\r?$", re.MULTILINE)

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""Worst first."""

OLDEST_REDIS = (6, 2)
OLDEST_VALKEY = (7, 2)

CLOCK_SECONDS = 2.0
"""Difference of clocks from which on a person is misled by log times, s."""

MEMORY_FULL = 0.9
"""Share of ``maxmemory`` in use that is worth a warning."""

SETTINGS = ("appendfsync", "save", "stop-writes-on-bgsave-error")

BROKER_KEYS = ("_kombu.binding.celery", "_kombu.binding.celery.pidbox", "unacked")
"""Keys of kombu's Redis transport that a worker makes, without a ``global_keyprefix``."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    Attributes:
        code: Stable name, such as ``"eviction-policy"``.
        severity: ``"error"``: items may be lost or nothing runs; ``"warning"``: it will hurt one
            day; ``"info"``: good to know.
        message: What was seen.
        cost: What it leads to.
        fix: What to do.
    """

    code: str
    severity: Severity
    message: str
    cost: str
    fix: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read from the server.

    Attributes:
        info: Fields of INFO.
        schema: Layout number of the queue's keys, empty when there is none.
        keys_without_schema: Whether the queue has keys and no layout number.
        clock_ahead: This machine's clock less the server's, s.
        config: Those settings of CONFIG that INFO does not tell.
        refused: Commands this user may not call.
        beside_broker: Whether Celery's broker has keys in the same database.
    """

    info: dict[str, str]
    schema: str = ""
    keys_without_schema: bool = False
    clock_ahead: float = 0.0
    config: dict[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    beside_broker: bool = False


def examine_server(client: ScriptClient, keys: QueueKeys) -> list[Finding]:
    """Findings about the server behind a client.

    Args:
        client: Connection of the queue.
        keys: Its keys.

    Raises:
        Unavailable: Redis did not answer.
    """
    seen = look(client, keys)
    checks = (
        _memory, _persistence, _snapshot, _version, _role, _clock, _schema, _neighbour, _refused
    )  # fmt: skip
    return worst_first(finding for check in checks for finding in check(seen))


def look(client: ScriptClient, keys: QueueKeys) -> Seen:
    """Read what the checks need.

    Args:
        client: Connection of the queue.
        keys: Its keys.
    """
    asked = time.time()
    ((seconds, micros),) = client.read(("TIME",))
    answered = time.time()
    server_now = int(seconds) + int(micros) / 1e6
    ahead = max(0.0, asked - server_now) + min(0.0, answered - server_now)
    schema, present = client.read(
        ("GET", keys["schema"]),
        ("EXISTS", *(keys[name] for name in ("queue", "task", "inflight", "meta"))),
    )
    text, strangers, *pairs = client.ask(
        ("INFO", "everything"),
        ("EXISTS", *BROKER_KEYS),  # refused to a user that may only see the queue's keys
        *(("CONFIG", "GET", setting) for setting in SETTINGS),
    )
    told, listed = isinstance(text, bytes), all(isinstance(pair, list) for pair in pairs)
    return Seen(
        info=dict(_FIELD.findall(text.decode())) if told else {},
        schema=(schema or b"").decode(),
        keys_without_schema=bool(present) and not schema,
        clock_ahead=ahead,
        config={pair[0].decode(): pair[1].decode() for pair in pairs if pair} if listed else {},
        refused=("INFO",) * (not told) + ("CONFIG GET",) * (not listed),
        beside_broker=isinstance(strangers, int) and strangers > 0,
    )


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity, otherwise as they come."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def _memory(seen: Seen) -> Iterator[Finding]:
    policy, most = seen.info.get("maxmemory_policy", ""), int(seen.info.get("maxmemory", 0))
    used = int(seen.info.get("used_memory", 0))
    if policy.startswith("volatile-"):
        yield Finding(
            "eviction-volatile", "warning" if most else "info",
            f"maxmemory-policy is {policy}, maxmemory {most or 'has no limit'}",
            "a server that is full keeps items, but drops the notes by which an enqueue that is "
            "sent again is known: it may store its items twice",
            "CONFIG SET maxmemory-policy noeviction; keep caches elsewhere",
        )  # fmt: skip
    elif policy and policy != "noeviction":
        yield Finding(
            "eviction-policy", "error" if most else "info",
            f"maxmemory-policy is {policy}, maxmemory {most or 'has no limit'}",
            "a server that is full deletes waiting items without a word",
            "CONFIG SET maxmemory-policy noeviction, and watch its memory; keep caches elsewhere",
        )  # fmt: skip
    if most and used > MEMORY_FULL * most:
        yield Finding(
            "memory-full", "warning",
            f"{used / most:.0%} of maxmemory is in use",
            "a full server refuses to enqueue",
            "give it more memory, or drain what waits",
        )  # fmt: skip


def _persistence(seen: Seen) -> Iterator[Finding]:
    if seen.info.get("aof_enabled") == "0":
        yield Finding(
            "no-aof", "warning",
            "the append-only file is off",
            "a crash of the server loses every item since its last snapshot, or all of them",
            "CONFIG SET appendonly yes, with appendfsync everysec",
        )  # fmt: skip
    elif seen.info and seen.config.get("appendfsync") == "no":
        yield Finding(
            "appendfsync-no", "warning",
            "appendfsync is no: the system decides when the append-only file reaches the disk",
            "a crash of the machine loses about the last 30 seconds",
            "CONFIG SET appendfsync everysec",
        )  # fmt: skip
    if seen.info.get("aof_last_write_status", "ok") != "ok":
        yield Finding(
            "aof-broken", "error",
            f"the last write of the append-only file: {seen.info['aof_last_write_status']}",
            "the server refuses writes, nothing can be enqueued or acked",
            "make room on its disk",
        )  # fmt: skip


def _snapshot(seen: Seen) -> Iterator[Finding]:
    stops = seen.config.get("stop-writes-on-bgsave-error") == "yes" and seen.config.get("save")
    if seen.info.get("rdb_last_bgsave_status") == "err" and stops:
        yield Finding(
            "snapshot-failed", "error",
            "the last snapshot failed, and stop-writes-on-bgsave-error is yes",
            "the server refuses writes, nothing can be enqueued or acked",
            "see its log; make room on its disk or in its memory, then BGSAVE",
        )  # fmt: skip


def _version(seen: Seen) -> Iterator[Finding]:
    is_valkey = "valkey_version" in seen.info
    name = "Valkey" if is_valkey else "Redis"
    text = seen.info.get("valkey_version" if is_valkey else "redis_version", "0")
    oldest = OLDEST_VALKEY if is_valkey else OLDEST_REDIS
    if seen.info and version_of(text) < oldest:
        yield Finding(
            "server-too-old", "error",
            f"the server is {name} {text}",
            "scripts use commands it may not have, and nobody tests them there",
            f"upgrade to {name} {'.'.join(map(str, oldest))} or later",
        )  # fmt: skip


def version_of(text: str) -> tuple[int, int]:
    """Major and minor number of a version."""
    numbers = [int(number) for number in re.findall(r"\d+", text)] + [0, 0]
    return numbers[0], numbers[1]


def _role(seen: Seen) -> Iterator[Finding]:
    if seen.info.get("role") == "slave":
        yield Finding(
            "replica", "error",
            "the server is a replica, of "
            f"{seen.info.get('master_host')}:{seen.info.get('master_port')}",
            "it takes no writes: nothing can be enqueued, leased or acked",
            "connect to the primary, or by Sentinel's master_for()",
        )  # fmt: skip


def _clock(seen: Seen) -> Iterator[Finding]:
    if abs(seen.clock_ahead) > CLOCK_SECONDS:
        way = "ahead of" if seen.clock_ahead > 0 else "behind"
        yield Finding(
            "clock", "warning",
            f"this machine's clock is {abs(seen.clock_ahead):.1f} s {way} the server's",
            "leases are safe (the server's clock counts), but eta= and expires= come at other "
            "times than they say, and logs mislead",
            "let both machines keep time by NTP",
        )  # fmt: skip


def _schema(seen: Seen) -> Iterator[Finding]:
    if seen.keys_without_schema or (seen.schema and not is_our_layout(seen.schema)):
        found = seen.schema or "none (release 0.2, or another program)"
        yield Finding(
            "schema", "error",
            f"the keys have layout {found}, this release needs {SCHEMA}",
            "every call is refused",
            "upgrade every process to the same release, or convert keys of 0.2 with "
            "'python -m vtrr_queue.migrate'",
        )  # fmt: skip


def _neighbour(seen: Seen) -> Iterator[Finding]:
    if seen.beside_broker:
        yield Finding(
            "shared-database", "info",
            "Celery's broker has keys in the same database",
            "whoever clears the broker with FLUSHDB deletes what waits here",
            "give the queue a database index of its own",
        )  # fmt: skip


def _refused(seen: Seen) -> Iterator[Finding]:
    if "INFO" in seen.refused:
        yield Finding(
            "info-forbidden", "info",
            "INFO is not allowed here",
            "memory, persistence, version and role of the server could not be checked",
            "allow +info to this user, or look at the provider's settings",
        )  # fmt: skip
    if "CONFIG GET" in seen.refused:
        yield Finding(
            "config-forbidden", "info",
            "CONFIG GET is not allowed here",
            "appendfsync and what a failed snapshot does could not be checked",
            "allow +config|get to this user, or look at the provider's settings",
        )  # fmt: skip
