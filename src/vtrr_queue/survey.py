"""Who waits, how much and why: what the command line, the exporter and the web page show.

Invariants: nothing is written; no command takes the server longer than about a millisecond; a call
reads a bounded number of partitions, except for the first one, which has to find them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, get_args

from vtrr_queue.audit import at_once
from vtrr_queue.errors import ArgumentError
from vtrr_queue.policy import FIELDS, Policy, Rate, read_policy
from vtrr_queue.reasons import Reason, Reasons
from vtrr_queue.roster import Roster
from vtrr_queue.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vtrr_queue.engine import Engine

__all__ = ["Overview", "Reason", "Row", "Sort", "State", "Survey"]

Sort = Literal["backlog", "oldest", "running", "used"]
State = Literal["ready", "paused", "held", "limited", "capped", "running"]

RENEWED_AT_ONCE = 5000
"""Partitions that a call after the first looks at; with more of them, some counts are older."""

MARGIN = 30
"""Rows read beyond those that are shown, as their order may have changed since they were ranked."""

LIMIT_MAX = 1000
"""Most rows of one call."""


@dataclass(frozen=True, slots=True)
class Row:
    """One partition with something waiting or running.

    Attributes:
        name: The partition.
        state: ``"ready"`` to be served, ``"running"`` (and nothing waits), or why it is not served
            now: ``"paused"``, ``"held"``, ``"limited"`` by its rate, ``"capped"``.
        until_ms: When a hold or a limit ends, server clock, ms since the epoch; else None.
        waiting: Items in its backlogs, of all priorities.
        running: Leases held.
        oldest: Age of its oldest waiting item, s, since it could be served first; None when nothing
            waits.
        share: Its share.
        cap: Most items that may run at once; None for any number.
        rate: How fast its items may start; None for any.
        used: Its part of what was served, 0 to 1: of all charges of the last five to six minutes
            where workers keep statistics; else of the charges of the leases held, or of their
            number where run time is charged.
        due: The part its share entitles it to: its share divided by the shares of all partitions
            that have work. 0 while it is paused or held; these do not count for the others.
    """

    name: str
    state: State
    until_ms: int | None
    waiting: int
    running: int
    oldest: float | None
    share: float
    cap: int | None
    rate: Rate | None
    used: float
    due: float


@dataclass(frozen=True, slots=True)
class Overview:
    """A queue at one moment.

    Attributes:
        name: The queue.
        at_ms: The moment, server clock, ms since the epoch.
        waiting: Items in the backlogs.
        delayed: Items whose time has not come.
        running: Leases held.
        dead: Dead letters.
        partitions: Partitions that have something waiting or running.
        servable: Of these, partitions that may be served now.
        paused: Whether the queue as a whole is paused.
        held_until_ms: When a hold of the whole queue ends; None without one.
        limited_until_ms: When the queue's ``max_rate`` allows the next item; None when it does now.
        max_in_flight: Most items of the queue that may run at once; None for any number.
        next_wake_ms: Earliest moment at which something changes by itself; None when nothing will.
        rows: Partitions in the wanted order, the largest first.
        whole: Whether all partitions were counted by this call. When there are many, looks after
            the first count 5,000 of them in turn, beside those shown; of :meth:`Survey.status` see
            there.
    """

    name: str
    at_ms: int
    waiting: int
    delayed: int
    running: int
    dead: int
    partitions: int
    servable: int
    paused: bool
    held_until_ms: int | None
    limited_until_ms: int | None
    max_in_flight: int | None
    next_wake_ms: int | None
    rows: tuple[Row, ...]
    whole: bool


@dataclass(slots=True)
class _Moment:
    """What is read once a call."""

    now_ms: int
    depth: dict[str, int]
    wakes: list[int]
    default: Policy
    limits: dict[str, float]
    parked: float | None
    by_runtime: bool
    running: Counter[bytes] = field(default_factory=Counter)
    charged: defaultdict[bytes, float] = field(default_factory=lambda: defaultdict(float))
    service: Mapping[bytes, float] = field(default_factory=dict)
    total: float = 0.0

    def used(self, name: bytes) -> float:
        """Part of what was served, or is."""
        return self.served.get(name, 0) / (self.total or 1)

    @property
    def served(self) -> Mapping[bytes, float]:
        """What ``used`` is a part of."""
        return self.service or (self.running if self.by_runtime else self.charged)


class Survey:
    """Views on the queue of an engine, cheap enough to be taken once a second.

    Keep the object: it remembers which partitions there are. It is not to be used by two threads
    at once.

    Args:
        engine: Its connection and its key names are used.
    """

    def __init__(self, engine: Engine) -> None:
        self._client, self._keys = engine.client, engine.keys
        self._roster = Roster(engine.client, engine.keys)
        self._window = Window(engine.client, engine.keys)
        self._known = False

    def status(self) -> Overview:
        """The queue's own numbers without rows.

        It costs the same however many partitions there are: with more than 5,000 that are held or
        limited or have settings of their own, those that wait without running are not counted.
        Then ``whole`` is False and ``partitions`` the least there are.
        """
        moment = self._moment()
        aside = Roster(self._client, self._keys).aside(RENEWED_AT_ONCE)
        others = list(moment.running.keys() | set(aside or ()))
        partitions = moment.depth["queue"] + self._is_queued(others).count(False)
        return self._overview(moment, partitions, (), whole=aside is not None)

    def look(self, sort: Sort = "backlog", limit: int = 20, find: str | None = None) -> Overview:
        """The queue's numbers and its largest partitions.

        Args:
            sort: ``"backlog"``, ``"running"``, ``"used"`` or ``"oldest"``.
            limit: Most rows, 0 to 1000.
            find: Only partitions whose name has this in it, in whatever case.

        Raises:
            ArgumentError: A value is out of range.
            Unavailable: Redis did not answer.
        """
        if sort not in get_args(Sort):
            raise ArgumentError("sort", sort, f"one of {', '.join(get_args(Sort))}")
        if not 0 <= limit <= LIMIT_MAX:
            raise ArgumentError("limit", limit, f"from 0 to {LIMIT_MAX}")
        if sort == "oldest" and not self._roster.ages:
            self._roster.ages, self._known = True, False
        small = len(self._roster.waiting) <= RENEWED_AT_ONCE
        whole = self._roster.renew(None if small or not self._known else RENEWED_AT_ONCE)
        self._known = True
        moment = self._moment()
        names = self._ranked(moment, sort, limit + MARGIN if limit else 0, find)
        rows = self._rows(moment, names)
        rows = sorted(rows, key=lambda row: (*_rank(row, sort), row.name))[:limit]
        waiting = self._roster.waiting
        partitions = len(waiting) + sum(name not in waiting for name in moment.running)
        return self._overview(moment, partitions, rows, whole=whole)

    def of(self, names: Sequence[str]) -> Overview:
        """The queue's numbers, and as rows those of these partitions that have work.

        Args:
            names: Their names; the rows come in this order.

        Raises:
            Unavailable: Redis did not answer.
        """
        overview = self.look(limit=0)
        rows = self._rows(self._moment(), [name.encode() for name in names])
        return replace(overview, rows=tuple(rows))

    def why(self, name: str) -> list[Reason]:
        """Why a partition, or an item, is not running.

        Args:
            name: Name of a partition, or id of an item.

        Returns:
            All that hold it up, what decides first; one of kind ``"unknown"`` when there is
            neither a partition with work nor an item of this name.
        """
        return Reasons(self._client, self._keys, self._roster).of(name)

    def _moment(self) -> _Moment:
        keys = self._keys
        firsts = [("ZRANGE", keys[key], 0, 0, "WITHSCORES")
                  for key in ("inflight", "delayed", "parked")]  # fmt: skip
        sizes = {"task": "HLEN", "delayed": "ZCARD", "inflight": "ZCARD", "dead": "HLEN",
                 "queue": "ZCARD"}  # fmt: skip
        now, schema, text, parked, *found = at_once(
            self._client, ("TIME",), ("GET", keys["schema"]), ("HGET", keys["policy"], ""),
            ("ZSCORE", keys["parked"], ""), *firsts,
            *((command, keys[key]) for key, command in sizes.items()),
        )  # fmt: skip
        words = dict(zip(FIELDS, (text or b"").decode().split(), strict=False))
        moment = _Moment(
            now_ms=int(now[0]) * 1000 + int(now[1]) // 1000,
            depth=dict(zip(sizes, found[len(firsts) :], strict=True)),
            wakes=[int(float(first[1])) for first in found[: len(firsts)] if first],
            default=read_policy(text),
            limits={field: float(word) for field, word in words.items()
                    if field == "max_in_flight" and word != "-"},
            parked=None if parked is None else float(parked),
            by_runtime="r" in (schema or b"").decode(),
        )  # fmt: skip
        for lease in self._roster.leases():
            moment.running[lease.partition.encode()] += 1
            moment.charged[lease.partition.encode()] += lease.charge
        moment.service = self._window.service(moment.now_ms)
        moment.total = sum(moment.served.values())
        return moment

    def _ranked(self, moment: _Moment, sort: Sort, most: int, find: str | None) -> list[bytes]:
        """Names that come first, by the counts there are."""
        waiting, now = self._roster.waiting, moment.now_ms
        parts: Mapping[bytes, float] = moment.served if sort == "used" else moment.running
        running: Iterable[bytes] = moment.running.keys() | (parts.keys() & waiting.keys())
        rest: Iterable[tuple[bytes, int]] = waiting.items()
        if find:
            wanted = find.casefold()
            running = [name for name in running if wanted in name.decode().casefold()]
            rest = [pair for pair in rest if wanted in pair[0].decode().casefold()]
        names = nlargest(most, running, key=lambda name: (parts.get(name, 0), waiting.get(name, 0)))
        if sort == "oldest":
            since = self._roster.since
            first = nsmallest(most, rest, key=lambda pair: since.get(pair[0], now))
            return list(dict.fromkeys([*(name for name, _ in first), *names]))
        names += [name for name, _ in nlargest(most, rest, key=itemgetter(1))]
        return list(dict.fromkeys(names))

    def _rows(self, moment: _Moment, names: Sequence[bytes]) -> list[Row]:
        counts = self._roster.recount(names)
        places = self._places(names)
        total = self._total_share(moment)
        ages = self._roster.oldest(names)
        rows: list[Row] = []
        for name, waiting, (text, wake), age in zip(names, counts, places, ages, strict=True):
            running = moment.running[name]
            if not waiting and not running:
                continue
            own = read_policy(text)
            share = _first(own.share, moment.default.share, 1.0)
            cap = _first(own.cap, moment.default.cap, math.inf)
            rate = own.rate if own.rate is not None else moment.default.rate
            state, until_ms = _state(own, wake, cap, waiting, running, moment.now_ms)
            due = 0.0 if state in {"paused", "held"} else share / max(total, share)
            rows.append(Row(
                name=name.decode(), state=state, until_ms=until_ms, waiting=waiting,
                running=running, oldest=_oldest(age, moment.now_ms), share=share,
                cap=None if cap == math.inf else int(cap),
                rate=rate if isinstance(rate, Rate) else None, used=moment.used(name), due=due,
            ))  # fmt: skip
        return rows

    def _places(self, names: Sequence[bytes]) -> list[tuple[bytes | None, float | None]]:
        """Policy and wake time of each."""
        if not names:
            return []
        texts, *wakes = self._client.read(
            ("HMGET", self._keys["policy"], *names),
            *(("ZSCORE", self._keys["parked"], name) for name in names),
        )
        wakes = [None if wake is None else float(wake) for wake in wakes]
        return list(zip(texts, wakes, strict=True))

    def _is_queued(self, names: Sequence[bytes]) -> list[bool]:
        commands = [("ZSCORE", self._keys["queue"], name) for name in names]
        scores = self._client.read(*commands) if commands else []
        return [score is not None for score in scores]

    def _total_share(self, moment: _Moment) -> float:
        """Sum of the shares of the partitions that have work and are neither paused nor held."""
        only_running = moment.running.keys() - self._roster.waiting.keys()
        return self._roster.total_share + sum(map(self._roster.share, only_running))

    def _overview(
        self, moment: _Moment, partitions: int, rows: Sequence[Row], *, whole: bool
    ) -> Overview:
        depth, default = moment.depth, moment.default
        held, parked = default.held_until_ms or 0, moment.parked or 0
        most = moment.limits.get("max_in_flight")
        return Overview(
            name=self._keys.name, at_ms=moment.now_ms,
            waiting=depth["task"] - depth["delayed"] - depth["inflight"],
            delayed=depth["delayed"], running=depth["inflight"], dead=depth["dead"],
            partitions=partitions, servable=depth["queue"], paused=default.paused,
            held_until_ms=held if held > moment.now_ms else None,
            limited_until_ms=int(parked) if parked > moment.now_ms >= held else None,
            max_in_flight=int(most) if most else None,
            next_wake_ms=min(moment.wakes, default=None), rows=tuple(rows), whole=whole,
        )  # fmt: skip


def _oldest(since: int | None, now_ms: int) -> float | None:
    """Age of the oldest waiting item of a partition, s; None when nothing waits."""
    return None if since is None else max(0.0, (now_ms - since) / 1000)


def _state(
    own: Policy, wake: float | None, cap: float, waiting: int, running: int, now_ms: int
) -> tuple[State, int | None]:
    held = own.held_until_ms or 0
    if own.paused:
        return "paused", None
    if held > now_ms:
        return "held", held
    if not waiting:
        return "running", None
    if running >= cap:
        return "capped", None
    if wake is not None and wake > now_ms:
        return "limited", int(wake)
    return "ready", None


def _rank(row: Row, sort: Sort) -> tuple[float, ...]:
    first = {"running": row.running, "used": row.used, "oldest": row.oldest or 0.0}
    return (-first.get(sort, 0.0), -row.waiting)


def _first(*values: Any) -> float:
    return float(next(value for value in values if value is not None))
