"""Which partitions have work and how much waits in each, found in small pieces.

A partition with something waiting stands in ``queue``; or in ``parked`` while it is held or
limited; or, while it is at its cap, only its leases show it; or it is paused, as its policy says.

Invariants: nothing is written; no command takes the server longer than about a millisecond; what
had work during a whole renewal, and was not served while it was looked for, is known after it.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

from vtrr_queue.bulk import packed_lengths, read_numbers, read_scan, read_texts
from vtrr_queue.errors import SchemaMismatch
from vtrr_queue.keys import SCHEMA
from vtrr_queue.policy import FIELDS
from vtrr_queue.records import read_held_lease
from vtrr_queue.wire import packed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vtrr_queue.client import ScriptClient
    from vtrr_queue.keys import QueueKeys
    from vtrr_queue.records import HeldLease
    from vtrr_queue.talk import Call

PIECE = 2000
"""Partitions looked at in one round trip."""

OVERLAP = 50
"""Ranks looked at twice, because partitions that are served meanwhile move to the back."""

SCAN_COUNT = 500
"""Fields of a hash that one HSCAN looks at."""

FRONTS_AT_ONCE = 50
"""Partitions whose oldest item one script looks at, in less than a millisecond."""

_SHARE, _PAUSED, _HOLD = (FIELDS.index(field) for field in ("share", "paused", "hold"))


class Roster:
    """The partitions of a queue that have something waiting.

    Args:
        client: Reads.
        keys: Names of the queue's keys.

    Attributes:
        waiting: Partition -> items in its backlogs when it was last looked at, never 0.
        default_share: Share of partitions that have none of their own.
        since: Partition -> when its oldest waiting item could be served first, server clock, ms;
            filled only while ``ages`` is set.
        ages: Whether renewals look for ages as well, which takes about four times as long.
        total_share: Sum of the shares of the partitions in ``waiting`` that are neither paused nor
            held, when a renewal last ended.
    """

    def __init__(self, client: ScriptClient, keys: QueueKeys) -> None:
        self._client, self._keys = client, keys
        self._backlog, self._level = keys["backlog:"].encode(), keys["level:"].encode()
        self.waiting: dict[bytes, int] = {}
        self.since: dict[bytes, int] = {}
        self.ages = False
        self.default_share = 1.0
        self.total_share = 0.0
        self._shares: dict[bytes, float] = {}
        self._paused: set[bytes] = set()
        self._held: set[bytes] = set()
        self._levels: dict[bytes, bytes] = {}
        self._holes: dict[bytes, int] = {}
        self._under_way: Iterator[int] | None = None

    def renew(self, most: int | None = None) -> bool:
        """Look again, at so many partitions more or at all of them.

        Args:
            most: About how many; None for a whole renewal. What is left is done by the next call.

        Returns:
            Whether a renewal has ended.
        """
        left = most if most is not None else float("inf")
        if self._under_way is None or most is None:
            self._under_way = self._renewal()
        for looked_at in self._under_way:
            left -= looked_at
            if left <= 0:
                return False
        self._under_way = None
        return True

    def count(self, names: Sequence[bytes]) -> list[int]:
        """Count what waits in these partitions now, and remember it."""
        if not names:
            return []
        lists = [self._backlog + name for name in names]
        others = list(self._other_lists(names))
        lists += [name for _, name in others]
        found = self._client.bulk(packed_lengths(lists), partial(read_numbers, count=len(lists)))
        counts = found[: len(names)]
        for (at, _), more in zip(others, found[len(names) :], strict=True):
            counts[at] += more
        if self._holes:
            counts = [max(0, count - self._holes.get(name, 0))
                      for name, count in zip(names, counts, strict=True)]  # fmt: skip
        self.waiting.update(zip(names, counts, strict=True))
        if 0 in counts:
            for name, count in zip(names, counts, strict=True):
                if not count:
                    self.waiting.pop(name, None)
        return counts

    def recount(self, names: Sequence[bytes]) -> list[int]:
        """The same, after a look at which priorities and cancelled items they have now."""
        if names:
            levels, holes = self._client.read(
                ("HMGET", self._keys["levels"], *names), ("HMGET", self._keys["holes"], *names)
            )
            for name, level, hole in zip(names, levels, holes, strict=True):
                self._levels[name] = level or b""
                self._holes[name] = int(hole or 0)
        return self.count(names)

    def oldest(self, names: Sequence[bytes]) -> list[int | None]:
        """When the oldest waiting item of each could be served first, ms; and remember it.

        Raises:
            SchemaMismatch: The keys belong to another layout.

        Source:
            ``scripts/fronts.lua``.
        """
        calls: list[Call] = []
        for at in range(0, len(names), FRONTS_AT_ONCE):
            some = names[at : at + FRONTS_AT_ONCE]
            calls.append(("fronts", secrets.token_hex(8), partial(_given, some)))
        found: list[int | None] = []
        for reply in self._client.call_many(calls) if calls else ():
            if reply[0] == "schema":
                raise SchemaMismatch(reply[2].decode(), SCHEMA, self._keys.prefix)
            found += [int(text) if text else None for text in reply[6:]]
        for name, since in zip(names, found, strict=True):
            if since is None:
                self.since.pop(name, None)
            else:
                self.since[name] = since
        return found

    def aside(self, most: int) -> list[bytes] | None:
        """Partitions with something waiting that are paused, held or limited now.

        Args:
            most: Most partitions that are looked at.

        Returns:
            Their names; None when more than ``most`` would have to be looked at.
        """
        parked, policies = self._client.read(
            ("ZCARD", self._keys["parked"]), ("HLEN", self._keys["policy"])
        )
        if parked + policies > most:
            return None
        names = {name for some in self._ranks("parked") for name in some}
        for fields, texts in self._scan("policy"):
            names |= {name for name, text in zip(fields, texts, strict=True)
                      if text.split()[_PAUSED] != b"-"}  # fmt: skip
        found: list[bytes] = []
        for some in _pieces(list(names - {b""})):
            counts = zip(some, self.recount(some), strict=True)
            found += [name for name, count in counts if count]
        return found

    def leases(self) -> Iterator[HeldLease]:
        """Every lease held."""
        seen = set[bytes]()
        for fields, texts in self._scan("lease"):
            for token, text in zip(fields, texts, strict=True):
                if token not in seen:
                    seen.add(token)
                    yield read_held_lease(token, text)

    def share(self, name: bytes) -> float:
        """Share of a partition, as of the last renewal; 0 while it is paused or held."""
        if name in self._paused or name in self._held:
            return 0.0
        return self._shares.get(name, self.default_share)

    def _look(self, names: list[bytes]) -> None:
        self.count(names)
        if self.ages:
            self.oldest(names)

    def _renewal(self) -> Iterator[int]:
        now, schema = self._client.read(("TIME",), ("GET", self._keys["schema"]))
        letters = (schema or b"").decode()
        yield from self._read_hashes(letters, int(now[0]) * 1000)
        seen = set[bytes]()
        for names in self._sources(letters):
            new = [name for name in names if name not in seen]
            seen.update(new)
            self._look(new)
            yield len(names)
        for names in _pieces([name for name in self.waiting if name not in seen]):
            self._look(names)
            yield len(names)
        odd = (self._shares.keys() | self._paused | self._held) & self.waiting.keys()
        self.total_share = self.default_share * (len(self.waiting) - len(odd))
        self.total_share += sum(map(self.share, odd))

    def _sources(self, letters: str) -> Iterator[list[bytes]]:
        """Names of partitions with something waiting, from wherever they stand."""
        yield from self._ranks("queue")
        if "p" in letters:
            for names in self._ranks("parked"):
                yield [name for name in names if name]  # "" is the queue itself
            yield from _pieces(list(self._paused))
            yield from _pieces(list({lease.partition.encode() for lease in self.leases()}))

    def _read_hashes(self, letters: str, now_ms: int) -> Iterator[int]:
        """Policies, priorities and cancelled items, as far as this queue has some."""
        shares, paused, held = dict[bytes, float](), set[bytes](), set[bytes]()
        for names, texts in self._scan("policy") if "p" in letters else ():
            for name, text in zip(names, texts, strict=True):
                words = text.split()
                if words[_SHARE] != b"-":
                    shares[name] = float(words[_SHARE])
                if words[_PAUSED] != b"-":
                    paused.add(name)
                if words[_HOLD] != b"-" and float(words[_HOLD]) > now_ms:
                    held.add(name)
            yield len(names)
        self.default_share = shares.pop(b"", 1.0)
        self._shares, self._paused, self._held = shares, paused - {b""}, held - {b""}
        self._levels = {}
        for names, texts in self._scan("levels") if "l" in letters else ():
            self._levels.update(zip(names, texts, strict=True))
            yield len(names)
        self._holes = {}
        for names, texts in self._scan("holes") if "c" in letters else ():
            self._holes.update(zip(names, map(int, texts), strict=True))
            yield len(names)

    def _other_lists(self, names: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
        """Places of partitions that use other priorities than the default, and their lists."""
        for at, name in enumerate(names) if self._levels else ():
            for level in self._levels.get(name, b"").decode():
                yield at, self._level + level.encode() + b":" + name

    def _ranks(self, key: str) -> Iterator[list[bytes]]:
        """Members of a sorted set."""
        at, size = 0, PIECE
        while size == PIECE:
            command = packed(("ZRANGE", self._keys[key], at, at + PIECE - 1))
            names = self._client.bulk(command, read_texts)
            yield names
            size, at = len(names), at + PIECE - OVERLAP

    def _scan(self, key: str) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Fields and values of a hash."""
        cursor = b"0"
        while True:
            command = packed(("HSCAN", self._keys[key], cursor, "COUNT", SCAN_COUNT))
            cursor, found = self._client.bulk(command, read_scan)
            yield found[::2], found[1::2]
            if cursor == b"0":
                return


def _given(partitions: Sequence[bytes], _attempt: int) -> Sequence[bytes]:
    return partitions


def _pieces(names: list[bytes]) -> Iterator[list[bytes]]:
    return (names[at : at + PIECE] for at in range(0, len(names), PIECE))
