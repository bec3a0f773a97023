"""The user's function as an ordinary Celery task whose ``apply_async`` stores items.

Invariant: nothing of ours runs around the function; Celery calls it with a request built from the
item. A retry moves the item under its token; it never makes a second one.
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from celery._state import get_current_worker_task
from celery.app.task import Context
from celery.utils.log import get_logger

from vtrr_queue.celery.asynchronous import AsyncTask
from vtrr_queue.celery.context import ItemContext
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
from vtrr_queue.celery.options import check_hard_limit
from vtrr_queue.errors import ArgumentError, ArgumentTypeError, VTRRError
from vtrr_queue.model import Durability, DurabilityLevel, NewItem, OnDuplicate
from vtrr_queue.payload import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from celery import Task
    from celery.result import AsyncResult

    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.celery.settings import HoldRules

logger = get_logger(__name__)

RETRY_DELAY_MIN_SECONDS = 0.2
"""Least delay of a retry, s: the run that asked for it must store its state RETRY before the next
run stores a result, because Celery's backends read the old state and then write the new one."""

_OURS = ("partition_key", "weight", "priority", "durability", "durability_timeout")
"""Options of ``apply_async`` that Celery does not know."""

_STORED_HEADERS = (
    "shadow", "expires", "root_id", "parent_id", "group_index", "reply_to", "ignore_result",
    "replaced_task_nesting", "stamped_headers", "stamps",
)  # fmt: skip


class NewCall(NamedTuple):
    """What a call of ``apply_async`` is to store."""

    partition: str
    item: NewItem
    durability: Durability | None


class FairTask:
    """Mixin in front of the user's Celery base class."""

    abstract = True
    Request = "vtrr_queue.celery.request:ItemRequest"
    vtrr_queue: VTRRQueue

    @property
    def request(self) -> Any:
        """The running call, as an :class:`ItemContext`."""
        request = super().request  # type: ignore[misc]
        if type(request) is Context:
            request.__class__ = ItemContext  # Celery's tracer makes it and takes no other class
        return request

    @property
    def override_max_retries(self) -> int:
        """Limit that `retry(max_retries=)` has set: Celery keeps it on the task, we on the call."""
        try:
            limit: int = vars(self.request)["override_max_retries"]
        except KeyError:
            raise AttributeError("override_max_retries") from None  # for `hasattr`
        return limit

    @override_max_retries.setter
    def override_max_retries(self, limit: int) -> None:
        vars(self.request)["override_max_retries"] = limit

    @override_max_retries.deleter
    def override_max_retries(self) -> None:
        vars(self.request).pop("override_max_retries", None)

    def apply_async(
        self,
        args: Any = None,
        kwargs: Any = None,
        task_id: str | None = None,
        producer: Any = None,
        link: Any = None,
        link_error: Any = None,
        shadow: str | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Store a call as an item, or move the running item to its retry.

        Args:
            args: Positional arguments.
            kwargs: Keyword arguments.
            task_id: Item id; a UUID when None.
            producer: Ignored: items do not travel through the broker.
            link: Signatures to call on success.
            link_error: Signatures to call on failure.
            shadow: Name to show instead of the task's.
            **options: ``partition_key`` (required, except in a retry), ``weight``, ``priority``,
                ``countdown`` or ``eta``, ``durability`` and ``durability_timeout`` as in
                :meth:`VTRRTask.queue`, and Celery's own (``chain``, ``chord``, ``group_id``,
                ``headers``...).

        Returns:
            The result handle under the item's id.

        Raises:
            ArgumentError: ``partition_key`` is missing, or a value is out of range.
            PayloadError: The call cannot be serialised.
        """
        task: Any = self
        if task.app.conf.task_always_eager:
            for option in _OURS:
                options.pop(option, None)
            result: AsyncResult = super().apply_async(  # type: ignore[misc]
                args, kwargs, task_id, producer, link, link_error, shadow, **options)  # fmt: skip
            return result
        embed = _embed(link, link_error, options)
        headers = _headers(shadow, options, self.vtrr_queue.holding)
        request = task.request
        token = getattr(request, "vtrr_token", None)
        if token and task_id == request.id and options.get("retries"):
            self._retry(request, token, args, kwargs, embed, headers, options)
        else:
            call = self._call(task_id, args, kwargs, embed, headers, options)
            self.vtrr_queue.store(call.partition, [call.item], durability=call.durability)
            task_id = call.item.item_id
        return task.AsyncResult(task_id)

    def read_call(
        self, args: Any = None, kwargs: Any = None, task_id: str | None = None,
        producer: Any = None, link: Any = None, link_error: Any = None, shadow: str | None = None,
        **options: Any,
    ) -> NewCall:  # fmt: skip
        """What :meth:`apply_async` would store, checked and serialised."""
        headers = _headers(shadow, options, self.vtrr_queue.holding)
        embed = _embed(link, link_error, options)
        return self._call(task_id, args, kwargs, embed, headers, options)

    def _call(self, task_id: str | None, args: Any, kwargs: Any, embed: dict[str, Any],
              headers: dict[str, Any], options: dict[str, Any]) -> NewCall:  # fmt: skip
        task: Any = self
        partition = check_text("partition_key", options.get("partition_key"), PARTITION_MAX)
        weight = check_weight("weight", options["weight"]) if "weight" in options else None
        priority = check_priority("priority", options.get("priority"))
        item_id = check_text("task_id", task_id or str(uuid.uuid4()), ID_MAX)
        body = encode(
            task.name, *_call(args, kwargs), embed=embed, headers=headers,
            serializer=options.get("serializer") or task.serializer, argument="args or kwargs",
        )  # fmt: skip
        delay_ms = round(_delay_seconds(options) * 1000)
        durability = check_durability(
            options.get("durability"), options.get("durability_timeout", 2.0)
        )
        return NewCall(partition, NewItem(item_id, body, weight, delay_ms, priority), durability)

    def _retry(self, request: Any, token: str, args: Any, kwargs: Any, embed: dict[str, Any],
               headers: dict[str, Any], options: dict[str, Any]) -> None:  # fmt: skip
        task: Any = self
        body = encode(
            task.name, *_call(args, kwargs), embed=embed, headers=headers,
            serializer=options.get("serializer") or task.serializer, argument="args or kwargs",
        )  # fmt: skip
        try:
            moved = self.vtrr_queue.engine.retry(
                request.id, token,
                delay_seconds=max(RETRY_DELAY_MIN_SECONDS, _delay_seconds(options)),
                retries=int(options["retries"]), body=body,
            )  # fmt: skip
        except VTRRError:
            raise
        except Exception as exc:
            message = f"the retry of item {request.id!r} could not be stored: {exc}"
            raise VTRRError(message) from exc
        if not moved.held:
            logger.warning(
                "retry of %s[%s] dropped: its lease ended and the item runs elsewhere",
                task.name, request.id,
            )  # fmt: skip


class VTRRTask(AsyncTask):
    """What ``@vtrr.task`` returns.

    Calling it runs the function directly in the caller; :meth:`queue` enqueues.

    Attributes:
        name: Celery task name, ``module.function``.
    """

    def __init__(
        self, vtrr: VTRRQueue, name: str, function: Callable[..., Any], proxy: Any
    ) -> None:
        self.name = name
        self._vtrr, self._proxy = vtrr, proxy
        self.__wrapped__ = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__

    @property
    def celery_task(self) -> Task:
        """The Celery task itself; reading it configures the app."""
        return self._vtrr.app.tasks[self.name]

    def unregister(self) -> None:
        """Take it out of the app, because its module is loaded again."""
        app = self._vtrr.app
        app._tasks.pop(self.name, None)  # noqa: SLF001 - Celery keeps the first of a name
        waiting = [proxy for proxy in app._pending if proxy is not self._proxy]  # noqa: SLF001
        app._pending.clear()  # noqa: SLF001
        app._pending.extend(waiting)  # noqa: SLF001

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function in the caller, without any queue."""
        return self.celery_task(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<VTRRTask {self.name} on {self._vtrr.name!r}>"

    def queue(
        self,
        partition_key: str,
        tasks: Sequence[dict[str, Any]],
        *,
        on_duplicate: OnDuplicate = "skip",
        durability: DurabilityLevel | None = None,
        durability_timeout: float = 2.0,
    ) -> list[str]:
        """Enqueue calls for one partition; they run in this order.

        Args:
            partition_key: Whose turn they use (user, tenant, customer).
            tasks: Dicts with optional ``args`` (list or tuple), ``kwargs`` (dict), ``weight``
                (0.001 to 1e9, default 1: turns of its partition the item uses; with
                ``charge="runtime"`` the seconds it is expected to run), ``priority`` (0 first to
                9 last inside its partition, default 5) and ``id`` (string, else a UUID).
            on_duplicate: An id that waits or runs already is left alone (``"skip"``) or the
                whole call is refused (``"error"``).
            durability: Return only when the server has the items on disk (``"fsync"``) or a
                replica has them (``"replicated"``); None for when they are in its memory.
            durability_timeout: Longest wait for that, s.

        Returns:
            The item ids, in order; ``[]`` for an empty list.

        Raises:
            ArgumentError: A value is wrong; it names the entry and the key. Nothing was enqueued.
            ArgumentTypeError: A type is wrong. Nothing was enqueued.
            PayloadError: An entry cannot be serialised. Nothing was enqueued.
            BacklogFull: The partition has no room for all of them. Nothing was enqueued.
            DuplicateItem: ``on_duplicate="error"`` and an id is known.
            EnqueueInterrupted: Redis failed inside a call of more than 500 entries.
            NotDurable: All is stored, but the durability was not confirmed in time.
            Refused: The server can't give that durability; nothing was enqueued.
            Unavailable: Redis did not answer.
        """
        wanted = check_durability(durability, durability_timeout)
        return self._vtrr.enqueue(self, partition_key, tasks, on_duplicate, wanted)

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> AsyncResult:
        """As Celery's, with ``partition_key=``; see :meth:`FairTask.apply_async`."""
        return self.celery_task.apply_async(args, kwargs, **options)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """As Celery's ``apply``: run it here and now, return an ``EagerResult``."""
        return self.celery_task.apply(args, kwargs, **options)

    def s(self, *args: Any, **kwargs: Any) -> Any:
        """A signature; give it a partition with ``.set(partition_key=...)``."""
        return self.celery_task.s(*args, **kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Any:
        """An immutable signature; see :meth:`s`."""
        return self.celery_task.si(*args, **kwargs)

    def signature(self, *args: Any, **kwargs: Any) -> Any:
        """As Celery's ``Task.signature``."""
        return self.celery_task.signature(*args, **kwargs)

    def AsyncResult(self, item_id: str) -> AsyncResult:  # noqa: N802 - Celery's own name
        """The result handle of an item."""
        return self.celery_task.AsyncResult(item_id)


def _call(args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    return (
        check_args("args", () if args is None else args),
        check_kwargs("kwargs", {} if kwargs is None else kwargs),
    )


def _embed(link: Any, link_error: Any, options: dict[str, Any]) -> dict[str, Any]:
    return {"callbacks": _listed(link), "errbacks": _listed(link_error),
            "chain": options.get("chain"), "chord": options.get("chord")}  # fmt: skip


def _listed(value: Any) -> list[Any] | None:
    if value is None:
        return None
    return list(value) if isinstance(value, list | tuple) else [value]


def _headers(shadow: str | None, options: dict[str, Any], hold: HoldRules) -> dict[str, Any]:
    given = {key: options[key] for key in _STORED_HEADERS if options.get(key) is not None}
    given |= check_kwargs("headers", options.get("headers") or {})
    given = {key: value for key, value in given.items() if not key.startswith("vtrr_")}
    if given.get("expires") is not None:
        given["expires"] = _moment("expires", given["expires"])
    if options.get("group_id"):
        given["group"] = options["group_id"]
    if shadow:
        given["shadow"] = shadow
    limits = [_limit(name, options, hold) for name in ("time_limit", "soft_time_limit")]
    if any(limits):
        given["timelimit"] = limits
    parent = get_current_worker_task()
    if parent is not None and "root_id" not in given:
        given["root_id"] = parent.request.root_id or parent.request.id
        given.setdefault("parent_id", parent.request.id)
    return given


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


def _delay_seconds(options: dict[str, Any]) -> float:
    if options.get("countdown") is not None:
        return max(0.0, check_number("countdown", options["countdown"], -1e10, 1e10))
    eta = options.get("eta")
    if eta is None:
        return 0.0
    if not isinstance(eta, datetime):
        raise ArgumentTypeError("eta", eta, "a datetime")
    moment = eta if eta.tzinfo else eta.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - time.time())
