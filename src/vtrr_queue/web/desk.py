"""What the page shows of one queue, and what it may do to it.

Invariants: what a call carries, its exception included, is shown only on request and never
unpickled; the bodies of dead letters are read when there are others than before, not each time.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

from vtrr_queue.dead import DeadLetters
from vtrr_queue.engine import NO_TRIGGERS, Engine
from vtrr_queue.errors import ArgumentError, ArgumentTypeError, UndecodablePayload
from vtrr_queue.payload import decode
from vtrr_queue.policy import Rate, read_policy
from vtrr_queue.survey import Sort, Survey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vtrr_queue.model import DeadLetter, TriggerBudget, Wake
    from vtrr_queue.policy import Policy
    from vtrr_queue.survey import Overview, Row

ROWS, LETTERS = 50, 20
"""Most partitions and dead letters that are shown."""

SAMPLES = 300
"""Points of the chart."""

MANY, OLDEST_MS = 10_000, 5_000
"""With more partitions than these the oldest item of all is looked for only so often, ms."""

NAME_MAX = 65_536
"""Longest name that is taken from a request, bytes."""

SHOWN = 2_000
"""Most characters that are shown of a call, an exception or a reason."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

READABLE = ("application/json",)
"""Content types of calls that are shown; the others could run code."""

SORTS: tuple[Sort, ...] = get_args(Sort)
"""What the rows may be sorted by."""


class Queue(Protocol):
    """What the page needs of a :class:`~vtrr_queue.VTRRQueue`."""

    @property
    def engine(self) -> Engine:
        """The queue in Redis."""

    @property
    def budget(self) -> TriggerBudget:
        """How many triggers may stand."""

    def send_triggers(self, wake: Wake) -> None:
        """Publish the triggers that resumed work needs."""


@dataclass(frozen=True, slots=True)
class View:
    """What somebody looks at; equal views are read once.

    Attributes:
        queue: Name of the queue.
        sort: One of :data:`SORTS`.
        find: Only partitions whose name contains this.
    """

    queue: str
    sort: Sort = "backlog"
    find: str = ""

    def __post_init__(self) -> None:
        if self.sort not in SORTS:
            raise ArgumentError("sort", self.sort, f"one of {', '.join(SORTS)}")
        if len(self.find.encode(errors="replace")) > NAME_MAX:
            raise ArgumentError("find", self.find, f"at most {NAME_MAX} bytes long")


class Desk:
    """One queue, as the page sees it.

    Args:
        queue: A :class:`~vtrr_queue.VTRRQueue`, or an :class:`~vtrr_queue.engine.Engine`.
        show_payloads: Show the arguments, exceptions and tracebacks of dead letters.

    Raises:
        ArgumentTypeError: It is neither.
    """

    def __init__(self, queue: Queue | Engine, *, show_payloads: bool) -> None:
        engine = getattr(queue, "engine", queue)
        if not isinstance(engine, Engine):
            raise ArgumentTypeError("queues", queue, "a VTRRQueue or an Engine")
        self._engine, self._show_payloads = engine, show_payloads
        self._budget: TriggerBudget = getattr(queue, "budget", NO_TRIGGERS)
        self._send: Callable[[Wake], None] = getattr(queue, "send_triggers", lambda _wake: None)
        self._dead = DeadLetters(engine, self._budget, self._send)
        self._survey, self._one_at_a_time = Survey(engine), Lock()
        self._samples: deque[tuple[float, float | None, int]] = deque(maxlen=SAMPLES)
        self._oldest_at_ms, self._oldest_age = 0, cast("float | None", None)
        self._letters: tuple[list[Any], list[dict[str, Any]]] = ([], [])
        self.name = engine.keys.name

    def read(self, view: View) -> dict[str, Any]:
        """What a view shows now."""
        with self._one_at_a_time:
            overview = self._survey.look(sort=view.sort, limit=ROWS, find=view.find or None)
            policies = self._policies([row.name for row in overview.rows])
            totals = _totals(overview, self._oldest(view, overview))
            self._remember(overview.at_ms / 1000, totals)
            return {
                "queue": self.name,
                "at": overview.at_ms / 1000,
                "totals": totals,
                "rows": [_row(row, own, overview) for row, own in zip(
                    overview.rows, policies, strict=True)],
                "most": ROWS,
                "letters": self._read_letters(),
                "history": list(self._samples),
            }  # fmt: skip

    def why(self, partition: str) -> dict[str, Any]:
        """Why a partition waits, in sentences."""
        _name("partition", partition)
        with self._one_at_a_time:
            reasons = self._survey.why(partition)
        return {"why": [reason.text for reason in reasons]}

    def act(self, action: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out what somebody asks for.

        Args:
            action: One of ``pause``, ``resume``, ``set``, ``requeue`` and ``drop``.
            request: ``partition`` (empty for the whole queue) and the settings, or ``item``.

        Returns:
            What was done.

        Raises:
            ArgumentError: A value is wrong, or there is no such action.
            ArgumentTypeError: A type is wrong.
        """
        if action in {"pause", "resume"}:
            partition = _name("partition", request.get("partition"), may_be_empty=True)
            return self._set(partition, paused=action == "pause")
        if action == "set":
            settings = _settings(request)
            return self._set(_name("partition", request.get("partition")), **settings)
        if action in {"requeue", "drop"}:
            item_id = _name("item", request.get("item"))
            done = self._dead.requeue(item_id) if action == "requeue" else self._dead.drop(item_id)
            return {"done": len(done)}
        raise ArgumentError("action", action, "pause, resume, set, requeue or drop")

    def _set(self, partition: str, **settings: object) -> dict[str, Any]:
        self._send(self._engine.set_policy(partition, budget=self._budget, **settings))
        return {"done": 1}

    def _oldest(self, view: View, overview: Overview) -> float | None:
        """Age of the oldest item of the queue, whatever is looked at."""
        at_ms = overview.at_ms
        if view.sort != "oldest" or view.find:
            age = at_ms - self._oldest_at_ms
            if overview.partitions > MANY and 0 <= age < OLDEST_MS:
                return self._oldest_age
            overview = self._survey.look(sort="oldest", limit=1)
        self._oldest_at_ms = at_ms
        self._oldest_age = overview.rows[0].oldest if overview.rows else None
        return self._oldest_age

    def _policies(self, names: list[str]) -> list[Policy]:
        """What was set for partitions themselves."""
        if not names:
            return []
        (texts,) = self._engine.client.read(("HMGET", self._engine.keys["policy"], *names))
        return [read_policy(text) for text in texts]

    def _remember(self, at: float, totals: Mapping[str, Any]) -> None:
        if not self._samples or at - self._samples[-1][0] >= 1:
            self._samples.append((at, totals["oldest"], totals["waiting"]))

    def _read_letters(self) -> list[dict[str, Any]]:
        index = self._engine.keys["dead_index"]
        (latest,) = self._engine.client.read(("ZREVRANGE", index, 0, LETTERS - 1, "WITHSCORES"))
        if latest != self._letters[0]:
            self._letters = latest, [self._letter(each) for each in self._dead.latest(LETTERS)]
        return self._letters[1]

    def _letter(self, letter: DeadLetter) -> dict[str, Any]:
        shown = {
            "id": letter.item_id,
            "partition": letter.partition,
            "reason": letter.reason[:SHOWN],
            "died": letter.died_at_ms / 1000,
            "timeouts": letter.timeouts,
            "retries": letter.retries,
            "error": letter.exception.partition("(")[0][:80],
        }
        if self._show_payloads:
            shown["error"] = letter.exception[:SHOWN]
            shown["traceback"] = letter.traceback[-SHOWN:]
            shown["call"] = _call(letter.body)
        return shown


def _totals(overview: Overview, oldest: float | None) -> dict[str, Any]:
    return {
        "waiting": overview.waiting, "running": overview.running, "delayed": overview.delayed,
        "dead": overview.dead, "partitions": overview.partitions, "oldest": oldest,
        "paused": overview.paused,
    }  # fmt: skip


def _row(row: Row, own: Policy, overview: Overview) -> dict[str, Any]:
    left = None if row.until_ms is None else max(0.0, (row.until_ms - overview.at_ms) / 1000)
    return {
        "name": row.name, "waiting": row.waiting, "running": row.running, "oldest": row.oldest,
        "share": row.share, "cap": row.cap, "state": row.state, "left": left,
        "paused": own.paused, "used": row.used, "due": row.due,
        "over": _is_over(row, overview.running),
        "own": {"share": own.share, "cap": _bound(own.cap), "rate": _rate(own.rate)},
    }  # fmt: skip


def _is_over(row: Row, running: int) -> bool:
    """Whether it uses clearly more than its due: by a quarter, and by more than one slot."""
    return row.used > 1.25 * row.due and (row.used - row.due) * running > 1.5  # noqa: PLR2004


def _bound(number: float | None) -> str | int | None:
    if number is None:
        return None
    return "none" if number == math.inf else int(number)


def _rate(rate: Rate | float | None) -> str | None:
    """As it may be set again; a burst is not shown."""
    if not isinstance(rate, Rate):
        return None if rate is None else "none"
    for unit, seconds in _UNITS.items():
        number = float(rate.limit) * seconds
        if number >= 1:
            return f"{number:g}/{unit}"
    return f"{float(rate.limit) * _UNITS['d']:g}/d"


def _call(body: bytes) -> str:
    try:
        payload = decode(body)
        args, kwargs = payload.call(READABLE)
    except UndecodablePayload:
        return f"{len(body)} bytes that are not shown"
    words = [repr(each) for each in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
    return f"{payload.task_name}({', '.join(words)})"[:SHOWN]


def _settings(request: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a request: null is the queue's default, "none" no limit."""
    given = {point: request[point] for point in ("share", "cap", "rate") if point in request}
    if not given:
        raise ArgumentError("set", dict(request), "share, cap or rate")
    return {point: math.inf if value == "none" else value for point, value in given.items()}


def _name(argument: str, value: object, *, may_be_empty: bool = False) -> str:
    if not isinstance(value, str):
        raise ArgumentTypeError(argument, value, "a string")
    if not value and not may_be_empty:
        raise ArgumentError(argument, value, "a non-empty string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as exc:
        raise ArgumentError(argument, value, "valid text") from exc
    if size > NAME_MAX:
        raise ArgumentError(argument, value, f"at most {NAME_MAX} bytes long")
    return value
