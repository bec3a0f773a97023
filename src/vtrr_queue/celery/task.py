"""The user's function as an ordinary Celery task whose ``apply_async`` stores items.

Invariant: nothing of ours runs around the function; Celery calls it with a request built from the
item. A retry moves the item under its token; it never makes a second one.
"""

from __future__ import annotations

import uuid
from functools import cached_property
from types import MethodType
from typing import TYPE_CHECKING, Any

import celery
from celery.app.task import Context
from celery.utils.log import get_logger

from vtrr_queue.celery.announcing import announce, tell
from vtrr_queue.celery.asking import Asking
from vtrr_queue.celery.asynchronous import AsyncTask
from vtrr_queue.celery.context import ItemContext
from vtrr_queue.celery.entries import check_durability
from vtrr_queue.celery.passing import pass_through, passed, stands_in_between
from vtrr_queue.celery.sending import (
    AppConf,
    Around,
    NewCall,
    PartitionRule,
    eager_options,
    encoding_options,
    family_headers,
    read_app_conf,
    read_arguments,
    read_around,
    read_delay_seconds,
    read_new_call,
    reply_headers,
)
from vtrr_queue.errors import VTRRError
from vtrr_queue.model import DurabilityLevel, NewItem, OnDuplicate
from vtrr_queue.payload import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from celery import Task
    from celery.result import AsyncResult

    from vtrr_queue.celery.queue import VTRRQueue

logger = get_logger(__name__)

RETRY_DELAY_MIN_SECONDS = 0.2
"""Least delay of a retry, s: the run that asked for it must store its state RETRY before the next
run stores a result, because Celery's backends read the old state and then write the new one."""


class FairTask:
    """Mixin in front of the user's Celery base class."""

    abstract = True
    Request = "vtrr_queue.celery.request:ItemRequest"
    vtrr_queue: VTRRQueue
    vtrr_partitions = PartitionRule()

    @property
    def request(self) -> Any:
        """The running call, as an :class:`ItemContext`."""
        request = super().request  # type: ignore[misc]
        if type(request) is Context:
            request.__class__ = ItemContext  # Celery's tracer makes it and takes no other class
            request.vtrr_fill_in()
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
            **options: ``partition_key`` (required, unless the task has ``partition_by`` or
                ``default_partition``; a retry keeps its own), ``weight``, ``priority``,
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
        outer: Any = super().apply_async  # type: ignore[misc]
        given = {"task_id": task_id, "producer": producer, "link": link, "link_error": link_error,
                 "shadow": shadow}  # fmt: skip
        options |= {option: value for option, value in given.items() if value is not None}
        result: AsyncResult
        if task.app.conf.task_always_eager:
            self._check(args, kwargs, **options)
            result = outer(args, kwargs, **options)
        elif stands_in_between(outer):
            result = pass_through(task, outer, self._accept, args, kwargs, **options)
        else:
            result = self._accept(args, kwargs, **options)
        return result

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """As Celery's; a call that has a partition finds it in ``self.request``.

        Args:
            args: Positional arguments.
            kwargs: Keyword arguments.
            **options: Those of :meth:`apply_async`.

        Returns:
            The ``EagerResult``.
        """
        options = eager_options(self.vtrr_partitions, args, kwargs, options)
        return super().apply(args, kwargs, **options)  # type: ignore[misc]

    def read_call(self, args: Any = None, kwargs: Any = None, **options: Any) -> NewCall:
        """What :meth:`apply_async` would store, checked and serialised."""
        read: list[NewCall] = []
        task: Any = self

        def keep(
            args: Any, kwargs: Any, task_id: str | None = None, producer: Any = None,
            link: Any = None, link_error: Any = None, shadow: str | None = None, **options: Any,
        ) -> AsyncResult:  # fmt: skip
            around = read_around(task, args, kwargs, link, link_error, shadow, options)
            headers = reply_headers(task) | around.headers
            around = around._replace(headers=headers)
            read.append(read_new_call(task, task_id, args, kwargs, around, options))
            return task.AsyncResult(read[-1].item.item_id)

        outer: Any = super().apply_async  # type: ignore[misc]
        if stands_in_between(outer):
            pass_through(task, outer, keep, args, kwargs, **options)
        else:
            keep(args, kwargs, **options)
        return read[-1]

    def added_headers(self) -> dict[str, Any]:
        """Headers of items made now: of the run that makes them, and of tracing libraries."""
        task: Any = self
        added = family_headers() | reply_headers(task)
        outer = celery.Task.apply_async

        def keep(args: Any, kwargs: Any, task_id: Any, **options: Any) -> Any:
            added.update(options.get("headers") or {})
            return task.AsyncResult(task_id)

        if stands_in_between(outer):
            pass_through(task, MethodType(outer, task), keep, (), {}, task_id=str(uuid.uuid4()))
        return added

    def encoding(self) -> tuple[str, dict[str, Any], str | None]:
        """Serialiser, headers and compression of what :meth:`VTRRTask.queue` is given now."""
        task: Any = self
        chosen = encoding_options(task, {})
        return chosen["serializer"], self.added_headers(), chosen["compression"]

    @cached_property
    def vtrr_conf(self) -> AppConf:
        """What the app's settings say of calls, read once, as Celery's sender and backends do."""
        task: Any = self
        return read_app_conf(task.app)

    @property
    def typing(self) -> bool:
        """Whether Celery checks the arguments of a call: not as it hands one to us."""
        task: Any = self
        wanted = super().typing  # type: ignore[misc]
        checked: bool = task.app.strict_typing if wanted is None else wanted
        return checked and passed(self) is None

    def _get_app(self) -> Any:
        return passed(self) or super()._get_app()  # type: ignore[misc]

    def _get_exec_options(self) -> Any:
        return {} if passed(self) else super()._get_exec_options()  # type: ignore[misc]

    def _accept(
        self, args: Any, kwargs: Any, task_id: str | None = None, producer: Any = None,
        link: Any = None, link_error: Any = None, shadow: str | None = None, **options: Any,
    ) -> AsyncResult:  # fmt: skip
        task: Any = self
        around = read_around(task, args, kwargs, link, link_error, shadow, options)
        around = around._replace(headers=reply_headers(task) | around.headers)
        request = task.request
        token = getattr(request, "vtrr_token", None)
        if token and task_id == request.id and options.get("retries"):
            self._retry(request, token, args, kwargs, around, options)
        else:
            new = read_new_call(task, task_id, args, kwargs, around, options)
            self.vtrr_queue.store(new.partition, [new.item], durability=new.durability)
            task_id = new.item.item_id
        result: AsyncResult = task.AsyncResult(task_id)
        return result

    def _check(
        self, args: Any, kwargs: Any, task_id: str | None = None, producer: Any = None,
        link: Any = None, link_error: Any = None, shadow: str | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Refuse what could not be enqueued, of a call that is run at once."""
        task: Any = self
        around = read_around(task, args, kwargs, link, link_error, shadow, options)
        read_new_call(task, task_id, args, kwargs, around, options)

    def _retry(self, request: Any, token: str, args: Any, kwargs: Any, around: Around,
               options: dict[str, Any]) -> None:  # fmt: skip
        task: Any = self
        body = encode(
            task.name, *read_arguments(args, kwargs), embed=around.embed, headers=around.headers,
            argument="args or kwargs", **encoding_options(task, options),
        )  # fmt: skip
        delay_seconds = max(RETRY_DELAY_MIN_SECONDS, read_delay_seconds(options))
        retries = int(options["retries"])
        item = NewItem(request.id, body, delay_ms=round(delay_seconds * 1000))
        (item,), stored = announce(self.vtrr_queue, [item], retries)
        try:
            moved = self.vtrr_queue.engine.retry(
                request.id, token, delay_seconds=delay_seconds, retries=retries, body=item.body
            )
            tell(stored)
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


class VTRRTask(AsyncTask, Asking):
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

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """As Celery's; the task's ``partition_by`` or ``default_partition`` names the partition.

        Raises:
            ArgumentTypeError: It has neither.
            ArgumentError: The partition is empty, too long or no valid text.
            PayloadError: The call cannot be serialised.
        """
        return self.apply_async(args, kwargs)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """As Celery's ``apply``: run it here and now, return an ``EagerResult``."""
        return self.celery_task.apply(args, kwargs, **options)

    def s(self, *args: Any, **kwargs: Any) -> Any:
        """A signature; ``.set(partition_key=...)`` gives it a partition of its own."""
        return self.celery_task.s(*args, **kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Any:
        """An immutable signature; see :meth:`s`."""
        return self.celery_task.si(*args, **kwargs)

    def signature(self, *args: Any, **kwargs: Any) -> Any:
        """As Celery's ``Task.signature``."""
        return self.celery_task.signature(*args, **kwargs)

    def map(self, calls: Any) -> Any:
        """As Celery's: a signature that calls the function for each, in one plain task.

        That task goes to the app's default queue and takes no turns; see :meth:`queue` for that.
        """
        return self.celery_task.map(calls)

    def starmap(self, calls: Any) -> Any:
        """As Celery's, for argument lists; see :meth:`map`."""
        return self.celery_task.starmap(calls)

    def chunks(self, calls: Any, size: int) -> Any:
        """As Celery's: a signature of so many plain tasks that :meth:`starmap` a part each."""
        return self.celery_task.chunks(calls, size)

    def AsyncResult(self, item_id: str) -> AsyncResult:  # noqa: N802 - Celery's own name
        """The result handle of an item."""
        return self.celery_task.AsyncResult(item_id)
