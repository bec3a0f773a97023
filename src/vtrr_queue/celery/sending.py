"""Reads what ``apply_async`` was given: the call, its headers, its delay, its partition.

Invariant: a bad value is refused by name before Redis is touched.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from celery._state import get_current_worker_task
from celery.utils.log import get_logger
from kombu.exceptions import OperationalError

from vtrr_queue.celery.entries import (
    ID_MAX,
    PARTITION_MAX,
    check_args,
    check_durability,
    check_kwargs,
    check_number,
    check_priority,
    check_text,
    check_weight,
)
from vtrr_queue.celery.options import check_compression, check_hard_limit
from vtrr_queue.errors import ArgumentError, ArgumentTypeError, PayloadError
from vtrr_queue.model import NewItem
from vtrr_queue.payload import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vtrr_queue.celery.settings import HoldRules
    from vtrr_queue.model import Durability

logger = get_logger(__name__)

_reply_queues: set[str] = set()
"""Threads whose queue for results exists."""

OURS = ("partition_key", "weight", "priority", "durability", "durability_timeout")
"""Options of ``apply_async`` that Celery does not know."""

_STORED_HEADERS = (
    "shadow", "expires", "root_id", "parent_id", "group_index", "reply_to", "ignore_result",
    "replaced_task_nesting", "stamped_headers", "stamps", "argsrepr", "kwargsrepr",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """Whose turn a call uses that does not say so itself.

    Attributes:
        by: Function of the call's arguments; None as its result leaves it to ``default``.
        default: Partition of what is left.
    """

    by: Callable[..., Any] | None = None
    default: str | None = None

    def choose(self, given: Any, args: Any, kwargs: Any) -> str:
        """The partition of a call.

        Args:
            given: ``partition_key`` of the call; None when it has none.
            args: Positional arguments.
            kwargs: Keyword arguments.

        Raises:
            ArgumentTypeError: There is none, or it is no string; whatever ``by`` raises goes
                through as well.
            ArgumentError: It is empty, too long or no valid text.
        """
        argument = "partition_key"
        if given is None and self.by is not None:
            argument, given = "the result of partition_by", self.by(*args or (), **kwargs or {})
        if given is None and self.default is not None:
            return self.default
        if given is None:
            ways = "partition_by or default_partition" if self.by is None else "default_partition"
            expected = f"a string, unless the task has {ways}"
            raise ArgumentTypeError(argument, given, expected)
        return check_text(argument, given, PARTITION_MAX)


class Around(NamedTuple):
    """What goes with the arguments of a call: callbacks and the like, and message headers."""

    embed: dict[str, Any]
    headers: dict[str, Any]


class NewCall(NamedTuple):
    """What a call of ``apply_async`` is to store."""

    partition: str
    item: NewItem
    durability: Durability | None


class AppConf(NamedTuple):
    """What every call needs of the app's settings, whose lookup costs 6 us each time.

    Attributes:
        compression: Of calls that choose none themselves.
        replies: Whether results travel as messages (``rpc://``).
    """

    compression: str | None
    replies: bool


def read_app_conf(app: Any) -> AppConf:
    """The settings of a Celery app that is set up."""
    replies = str(app.conf.result_backend or "").startswith("rpc")
    return AppConf(app.conf.task_compression, replies)


def read_around(
    task: Any, args: Any, kwargs: Any, link: Any, link_error: Any, shadow: str | None,
    options: dict[str, Any],
) -> Around:  # fmt: skip
    """What ``apply_async`` was given beside the arguments, checked."""
    shadow = shadow or task.shadow_name(args, kwargs, options)
    headers = read_headers(shadow, options, task.vtrr_queue.holding)
    return Around(read_embed(link, link_error, options), headers)


def read_new_call(
    task: Any, task_id: str | None, args: Any, kwargs: Any, around: Around, options: dict[str, Any]
) -> NewCall:
    """What a call stores, checked and serialised."""
    call = read_arguments(args, kwargs)
    partition = task.vtrr_partitions.choose(options.get("partition_key"), *call)
    weight = check_weight("weight", options["weight"]) if "weight" in options else None
    priority = check_priority("priority", options.get("priority"))
    item_id = check_text("task_id", task_id or str(uuid.uuid4()), ID_MAX)
    try:
        body = encode(
            task.name, *call, embed=around.embed, headers=around.headers,
            argument="args or kwargs", **encoding_options(task, options),
        )  # fmt: skip
    except PayloadError as exc:
        raise PayloadError(_culprit(around.headers), exc.cause) from exc
    delay_ms = round(read_delay_seconds(options) * 1000)
    durability = check_durability(options.get("durability"), options.get("durability_timeout", 2.0))
    return NewCall(partition, NewItem(item_id, body, weight, delay_ms, priority), durability)


def _culprit(headers: dict[str, Any]) -> str:
    try:
        json.dumps(headers)
    except (TypeError, ValueError, RecursionError):
        return "headers"
    return "args or kwargs"


def eager_options(
    rule: PartitionRule, args: Any, kwargs: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """Options for Celery's ``apply``, with the call's partition as a header if it has one."""
    celerys = {option: value for option, value in options.items() if option not in OURS}
    given = options.get("partition_key")
    headers = dict(check_kwargs("headers", options.get("headers") or {}))
    if given is not None or rule != PartitionRule():
        headers.setdefault("vtrr_partition", rule.choose(given, args, kwargs))
    return celerys | {"headers": headers or None}


def split_options(options: Mapping[str, Any]) -> tuple[PartitionRule, dict[str, Any]]:
    """Part what a decorator says of partitions from the options that Celery knows."""
    celerys = dict(options)
    by, default = celerys.pop("partition_by", None), celerys.pop("default_partition", None)
    return PartitionRule(by, default), celerys


def read_arguments(args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of a call, checked.

    Raises:
        ArgumentTypeError: They are no list and no mapping of strings.
    """
    return (
        check_args("args", () if args is None else args),
        check_kwargs("kwargs", {} if kwargs is None else kwargs),
    )


def read_embed(link: Any, link_error: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What is to happen after the run, as Celery's messages have it."""
    return {"callbacks": _listed("link", link), "errbacks": _listed("link_error", link_error),
            "chain": options.get("chain"), "chord": options.get("chord")}  # fmt: skip


def read_headers(shadow: str | None, options: dict[str, Any], hold: HoldRules) -> dict[str, Any]:
    """Message headers of a call that differ from the default.

    Args:
        shadow: Name to show instead of the task's.
        options: What ``apply_async`` was given.
        hold: How long a worker may hold an item; a hard time limit must be shorter.

    Raises:
        ArgumentError: A value is out of range.
        ArgumentTypeError: A type is wrong.
    """
    given = {key: options[key] for key in _STORED_HEADERS if options.get(key) is not None}
    given |= check_kwargs("headers", options.get("headers") or {})
    given = {key: value for key, value in given.items() if not _is_ours(key)}
    if given.get("expires") is not None:
        given["expires"] = _moment("expires", given["expires"])
    if options.get("group_id"):
        given["group"] = options["group_id"]
    if shadow:
        given["shadow"] = shadow
    limits = [_limit(name, options, hold) for name in ("time_limit", "soft_time_limit")]
    if any(limits):
        given["timelimit"] = limits
    return given if "root_id" in given else family_headers() | given


def _is_ours(header: str) -> bool:
    """Whether a header says what this item is and how it was stored: no other item may have it."""
    return header.startswith("vtrr_") or header in {"compression", "id", "task"}


def encoding_options(task: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """How a call is serialised: as it says itself, else as its task and its app say.

    Raises:
        ArgumentError: There is no such compression.
    """
    chosen = options.get("compression")
    if chosen is not None:
        check_compression("compression", chosen)
    own = getattr(task, "compression", None)
    return {
        "serializer": options.get("serializer") or task.serializer,
        "compression": chosen or own or task.vtrr_conf.compression,
    }


def reply_headers(task: Any) -> dict[str, Any]:
    """Where a result goes that is sent as a message, with Celery's ``rpc://`` backend."""
    if not task.vtrr_conf.replies:
        return {}
    app = task.app
    oid = app.thread_oid
    if oid not in _reply_queues:
        try:
            with app.producer_or_acquire() as producer:
                task.backend.on_task_call(producer, "")
            _reply_queues.add(oid)
        except OperationalError as exc:  # reading the result declares the queue as well
            logger.warning("queue for results not declared: %s", exc)
    return {"reply_to": oid}


def family_headers() -> dict[str, Any]:
    """Who makes a call: ids of the run that goes on here, none outside of one."""
    parent = get_current_worker_task()
    if parent is None:
        return {}
    request = parent.request
    return {"root_id": request.root_id or request.id, "parent_id": request.id}


def _limit(name: str, options: dict[str, Any], hold: HoldRules) -> float | None:
    """A time limit of one call; a bad one would end every worker that takes the item."""
    if options.get(name) is None:
        return None
    limit = check_number(name, options[name], 0, above=True)
    if name == "time_limit":
        check_hard_limit(limit, hold)
    return limit


def _moment(name: str, value: Any) -> str:
    """A point in time as Celery's messages have it, from what ``apply_async`` takes."""
    if isinstance(value, str):  # from the message of an earlier run
        try:
            return datetime.fromisoformat(value).isoformat()
        except ValueError as exc:
            raise ArgumentError(name, value, "a datetime or seconds from now") from exc
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if not isinstance(value, datetime):
        seconds = check_number(name, value, -1e9, 1e9)
        value = datetime.fromtimestamp(time.time() + seconds, UTC)
    return str(value.isoformat())


def read_delay_seconds(options: dict[str, Any]) -> float:
    """Time from now until a call may run, s.

    Raises:
        ArgumentError: The countdown is out of range.
        ArgumentTypeError: The countdown is no number, or the eta no datetime.
    """
    if options.get("countdown") is not None:
        return max(0.0, check_number("countdown", options["countdown"], -1e10, 1e10))
    eta = options.get("eta")
    if eta is None:
        return 0.0
    if not isinstance(eta, datetime):
        raise ArgumentTypeError("eta", eta, "a datetime")
    moment = eta if eta.tzinfo else eta.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - time.time())


def _listed(argument: str, value: Any) -> list[Any] | None:
    if value is None:
        return None
    listed = list(value) if isinstance(value, list | tuple) else [value]
    for each in listed:
        if not (isinstance(each, dict) and "task" in each):
            raise ArgumentTypeError(argument, each, "a signature, or a list of them")
    return listed
