"""Runs items one by one in the calling process, as a worker with one slot would.

Invariant: leases, Celery's request and tracer, and the fates of runs are those of a worker; only
the pool is missing.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from celery import current_app, states
from celery.app.trace import build_tracer
from celery.concurrency.base import apply_target
from celery.exceptions import TaskRevokedError
from celery.utils.imports import symbol_by_name
from celery.worker import state
from celery.worker.request import create_request_cls
from kombu.serialization import prepare_accept_content

from vtrr_queue.celery.holding import Ended
from vtrr_queue.celery.message import UNREADABLE, read_message
from vtrr_queue.celery.request import Fate
from vtrr_queue.celery.settling import carry_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.model import Lease, Wake

HOLDER = "in-process"
_KEEPER = SimpleNamespace(hurry=lambda: None)
_IGNORE: Any = lambda *_, **__: None  # noqa: E731 - Celery's ack of a message there is none of


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an item.

    Attributes:
        item_id: The item.
        partition: Whose turn it used.
        args: Positional arguments.
        kwargs: Keyword arguments.
        state: Celery's state after the run: ``"SUCCESS"``, ``"FAILURE"``, ``"RETRY"``, ...
        result: What the function returned, or the exception.
        retries: Retries before this run.
        timeouts: Earlier runs that were lost.
    """

    item_id: str
    partition: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    state: str
    result: Any
    retries: int
    timeouts: int


class InProcess:
    """A worker without a pool, broker or event loop, for one queue.

    Args:
        vtrr: The queue; its task must be defined.

    Attributes:
        wake: What the server said at the last lease.
    """

    def __init__(self, vtrr: VTRRQueue) -> None:
        self.vtrr = vtrr
        self.feeder = SimpleNamespace(keeper=_KEEPER)
        self.wake: Wake | None = None
        self._task: Any = vtrr.app.tasks[vtrr.task_name]
        self._accept = prepare_accept_content(vtrr.app.conf.accept_content)
        self._outcome: Any = None
        self._broke_off: BaseException | None = None

    def run_next(self) -> Run | None:
        """Lease the next item in fair order, run it, and settle it.

        Returns:
            Its run; None when nothing can be served now.

        Raises:
            BaseException: What is no ``Exception`` ended the function, such as
                ``KeyboardInterrupt``; the item was put back and counts one timeout more.
        """
        leased = self.vtrr.engine.lease(holder=HOLDER, budget=self.vtrr.budget)
        self.wake = leased.wake
        self.vtrr.send_triggers(leased.wake)
        if not leased.items:
            return None
        (lease,) = leased.items
        with self._recording():
            run = self._run(lease)
        if self._broke_off is not None:
            raise self._broke_off
        return run

    def started(self, lease: Lease, request: Any) -> None:
        """The request's notice that its run begins."""

    def settle(
        self, lease: Lease, fate: Fate, why: str = "", *, grace_seconds: float = 0.0,
        **details: str,
    ) -> None:  # fmt: skip
        """The request's notice of how its run ended."""
        carry_out(self.vtrr, Ended(lease, fate, why, 0.0, **details))

    def _run(self, lease: Lease) -> Run:
        try:
            message = read_message(lease, self, self._accept)
        except UNREADABLE as exc:
            self.settle(lease, Fate.REJECTED, str(exc) or repr(exc))
            return _run_of(lease, (), {}, states.REJECTED, exc)
        base = symbol_by_name(self._task.Request)
        pool, app = SimpleNamespace(apply_async=apply_target), self.vtrr.app
        request = create_request_cls(base, self._task, pool, HOLDER, None, app=app)(
            message, on_ack=_IGNORE, on_reject=_IGNORE, app=app, hostname=HOLDER, eventer=None,
            task=self._task, connection_errors=(), body=message.body, headers=message.headers,
            decoded=False, utc=True,
        )  # fmt: skip
        args, kwargs = message.payload[0], message.payload[1]
        try:
            request.execute_using_pool(pool)
        except TaskRevokedError as exc:  # it has expired; no later item of this id has
            state.revoked.discard(lease.item_id)
            return _run_of(lease, args, kwargs, states.REVOKED, exc)
        return _run_of(lease, args, kwargs, *self._state_and_result())

    def _state_and_result(self) -> tuple[str, Any]:
        if self._outcome is None:
            return states.FAILURE, self._broke_off
        result, info = self._outcome[0], self._outcome[1]
        return (states.SUCCESS, result) if info is None else (info.state, info.retval)

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """Make the app the current one, and keep what Celery's tracer returns."""
        app, task = self.vtrr.app, self._task
        tracer, before = build_tracer(task.name, task, app=app), task.__trace__
        self._outcome = self._broke_off = None

        def trace(*arguments: Any) -> Any:
            try:
                self._outcome = tracer(*arguments)
            except Exception:
                raise
            except BaseException as exc:
                self._broke_off = exc
                raise
            return self._outcome

        previous = current_app._get_current_object()  # noqa: SLF001 - Celery's only way
        app.set_current()
        task.__trace__ = trace
        try:
            yield
        finally:
            task.__trace__ = before
            previous.set_current()


def _run_of(lease: Lease, args: Any, kwargs: Any, state: str, result: Any) -> Run:
    return Run(
        lease.item_id, lease.partition, tuple(args), dict(kwargs), state, result, lease.retries,
        lease.timeouts,
    )  # fmt: skip
