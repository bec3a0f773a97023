"""Decides the fate of a lease when Celery says how a run ended, in the worker's main process.

Invariant: a lease is settled once; acked only when the function returned, raised an ordinary
exception, or was cancelled by an operator. Process death never acks.

Source: Celery user guide, "Requests and custom requests". ``create_request_cls`` makes a subclass
that replaces ``on_success``, so that one is wrapped as the subclass is made.
"""

from __future__ import annotations

import enum
import signal
from typing import TYPE_CHECKING, Any

from billiard.einfo import ExceptionInfo
from billiard.exceptions import Terminated, TimeLimitExceeded, WorkerLostError
from celery.exceptions import Ignore, Reject, Retry
from celery.platforms import EX_FAILURE
from celery.utils.log import get_logger
from celery.worker import state
from celery.worker.request import Request
from kombu.utils.encoding import safe_repr

from vtrr_queue.errors import VTRRError

if TYPE_CHECKING:
    from collections.abc import Callable

logger = get_logger(__name__)

KILL_GRACE_SECONDS = 0.5
"""Time a process over its hard limit has to die before its item may run again, s."""


class Fate(enum.Enum):
    """What becomes of a lease."""

    ACK = "ack"
    """The run is over; the item goes."""
    CANCELLED = "cancelled"
    """An operator revoked it; the item goes."""
    RETRY = "retry"
    """The item waits for its retry already; when it doesn't, it becomes a dead letter."""
    RELEASE = "release"
    """Put back, not counted: the worker ends or lost its broker."""
    TIMED_OUT = "timed out"
    """Put back and counted: the process died or ran out of time."""
    FAILED = "failed"
    """An exception ended it and the queue keeps such items; it becomes a dead letter."""
    REJECTED = "rejected"
    """The function refused it for good; it becomes a dead letter."""


def shutting_down() -> bool:
    """Whether the worker has been told to end."""
    flags = (state.should_stop, state.should_terminate)
    return any(flag is not None and flag is not False for flag in flags)


class ItemRequest(Request):
    """A Celery request that carries a lease."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap the ``on_success`` of the class Celery generates from this one."""
        super().__init_subclass__(**kwargs)
        generated = cls.__dict__.get("on_success")
        if generated is not None:
            cls.on_success = _settling(generated)

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        """Celery's hook: the pool started the run."""
        super().on_accepted(pid, time_accepted)  # sets the pid that a stop needs
        self._message.feed.started(self._message.lease, self)

    def on_failure(
        self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False
    ) -> None:
        """Celery's hook: the run ended with an exception, or its process died."""
        fate, exc = self._fate(exc_info)
        if fate in {Fate.RELEASE, Fate.TIMED_OUT}:
            overdue = isinstance(exc, TimeLimitExceeded)  # Celery kills the process after this
            self._put_back(fate, repr(exc), KILL_GRACE_SECONDS if overdue else 0.0)
            return
        try:
            if isinstance(exc, MemoryError):
                # Celery >= 5.6 re-raises it here and the whole worker ends.
                state.task_ready(self)
                self.send_event("task-failed", exception=safe_repr(exc), traceback=None)
            else:
                super().on_failure(exc_info, send_failed_event, return_ok)
        finally:
            why = "the function raised" if fate is Fate.FAILED else safe_repr(exc)
            if not return_ok and fate in {Fate.FAILED, Fate.ACK}:  # from the pool, not the tracer
                why = "the run failed outside of its function"
                logger.error("%s[%s] failed outside of its function: %r", self.name, self.id, exc)
            trace = str(exc_info.traceback or "")
            if fate is Fate.RETRY and self.id in state.revoked:  # the retry will never run
                self._announce_revoked("revoked", False, None, False)
            self.vtrr_settle(fate, why, exception=safe_repr(exc), traceback=trace)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Celery's hook: a time limit passed."""
        if soft:
            super().on_timeout(soft, timeout)
            return
        state.task_ready(self)
        if not shutting_down():
            logger.error("Hard time limit (%ss) exceeded for %s[%s]: the item is put back",
                         timeout, self.name, self.id)  # fmt: skip
        self.vtrr_settle(Fate.TIMED_OUT, f"hard time limit of {timeout} s", KILL_GRACE_SECONDS)

    def cancel(self, *args: Any, **kwargs: Any) -> None:
        """Celery's hook: a cold shutdown, or a lost broker where the app cancels runs then."""
        super().cancel(*args, **kwargs)
        self._message.feed.feeder.keeper.hurry()

    @property
    def vtrr_cancelled(self) -> bool:
        """Whether Celery has cancelled this run."""
        return bool(self._already_cancelled)

    def _announce_revoked(self, *args: Any, **kwargs: Any) -> None:
        super()._announce_revoked(*args, **kwargs)
        self.vtrr_settle(Fate.CANCELLED, "revoked")

    def vtrr_stop(self, pool: Any) -> None:
        """Stop a run that has lost its lease, as ``revoke(terminate=True)`` stops one.

        But quietly: the item runs elsewhere under the same id, so no result may be stored.
        """
        if self.__dict__.get("_vtrr_lost"):
            return
        self._vtrr_lost = True
        try:
            pool.terminate_job(self.worker_pid, signal.SIGTERM)
        except NotImplementedError:
            logger.warning("%s[%s] goes on without its lease: this pool can't stop a run",
                           self.name, self.id)  # fmt: skip

    def _put_back(self, fate: Fate, why: str, grace_seconds: float = 0.0) -> None:
        state.task_ready(self)
        self.send_event("task-rejected", requeue=True)
        self.vtrr_settle(fate, why, grace_seconds)

    def vtrr_settle(
        self, fate: Fate, why: str = "", grace_seconds: float = 0.0, **details: str
    ) -> None:
        """Tell the feeder once how the run ended."""
        if not self.__dict__.get("_vtrr_settled"):
            self._vtrr_settled = True
            lease = self._message.lease
            self._message.feed.settle(lease, fate, why, grace_seconds=grace_seconds, **details)

    def _fate(self, exc_info: Any) -> tuple[Fate, BaseException]:
        exc = exc_info.exception
        exc = getattr(exc, "exc", exc) if type(exc).__name__ == "ExceptionWithTraceback" else exc
        if isinstance(exc, TimeLimitExceeded):
            return Fate.TIMED_OUT, exc
        if isinstance(exc, Terminated | WorkerLostError) or not isinstance(exc, Exception):
            return self._fate_of_death(exc), exc
        if _raised_by_shutdown(exc, exc_info):
            if not shutting_down():  # Celery 5.5 and 5.6: the handler broke off before it said so
                state.should_terminate = EX_FAILURE
            return Fate.RELEASE, exc
        if self._already_cancelled:
            return Fate.RELEASE, exc
        return self._fate_of_failure(exc), exc

    def _fate_of_failure(self, exc: Exception) -> Fate:
        if isinstance(exc, Retry):
            return Fate.RETRY
        if isinstance(exc, Reject):
            return _rejected(exc)
        keeps = self._message.feed.vtrr.on_failure == "dead" and not isinstance(exc, Ignore)
        return Fate.FAILED if keeps else Fate.ACK

    def _fate_of_death(self, exc: BaseException) -> Fate:
        if self.__dict__.get("_vtrr_lost"):
            return Fate.RELEASE
        if self._already_revoked:
            return Fate.CANCELLED
        if self._already_cancelled or shutting_down():
            return Fate.RELEASE
        return Fate.CANCELLED if isinstance(exc, Terminated) else Fate.TIMED_OUT


def _rejected(exc: Reject) -> Fate:
    if isinstance(exc.reason, VTRRError):  # self.retry() could not store the retry
        return Fate.REJECTED if isinstance(exc.reason, ValueError | TypeError) else Fate.RELEASE
    return Fate.RELEASE if exc.requeue else Fate.REJECTED


def _raised_by_shutdown(exc: BaseException, exc_info: Any) -> bool:
    """Celery's cold-shutdown handler raises NotImplementedError into a body of the solo pool."""
    text = str(getattr(exc_info, "traceback", ""))
    return isinstance(exc, NotImplementedError) and "celery/apps/worker.py" in text


def _settling(generated: Callable[..., None]) -> Callable[..., None]:
    def on_success(self: ItemRequest, result: Any, **kwargs: Any) -> None:
        """Celery's hook: the pool handed a result over."""
        if isinstance(result, ExceptionInfo):  # a BaseException in threads, solo or gevent
            self.on_failure(result)
            return
        failed, value, runtime = result
        if runtime is None and self.__dict__.get("_vtrr_lost"):
            self._put_back(Fate.RELEASE, "stopped")  # gevent and eventlet call that a success
            return
        exc = getattr(value, "exception", None) if failed else None
        if isinstance(exc, SystemExit | KeyboardInterrupt):
            self.on_failure(value)
            return
        try:
            generated(self, result, **kwargs)
        finally:
            if not failed:
                self.vtrr_settle(Fate.ACK)

    return on_success
