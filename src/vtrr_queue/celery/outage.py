"""Mends faults of Celery: in an outage of its broker, in its other loop, and in what pools tell.

The first two hit plain tasks as well; ours are hit harder, because a lease is held until the run's
end is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import celery
from celery.concurrency.base import BasePool
from celery.utils.log import get_logger

from vtrr_queue.celery.request import ItemRequest

if TYPE_CHECKING:
    from collections.abc import Callable

logger = get_logger(__name__)

_FORGETS_JOBS = celery.VERSION[:2] < (5, 6)


def let_close(connection: Any) -> None:
    """Let a worker close its lost connection.

    Celery 5.7 closes it after it was collected. With unacked messages kombu's Redis channel then
    often raises AttributeError, and the worker ends.

    Args:
        connection: The consumer's broker connection.
    """
    close = connection.close

    def close_even_collected() -> None:
        try:
            close()
        except AttributeError as exc:
            logger.debug("closing a collected broker connection: %r", exc)
            close()  # goes on behind the step that failed

    connection.close = close_even_collected


DRAIN_SECONDS = 0.05
"""Longest wait for messages at a time while triggers are held back from the broker, s."""


def drain_often(connection: Any, holds: Callable[[], bool]) -> None:
    """Let a worker without an event loop (gevent, eventlet) see soon that it may take messages.

    Its loop waits for two seconds at a time. When all messages it may have are unacknowledged, as
    triggers are while their items run, kombu's Redis transport waits for nothing, and does not
    notice that one was acknowledged meanwhile.

    Args:
        connection: The consumer's broker connection.
        holds: Whether triggers are held.
    """
    drain = connection.drain_events

    def drain_for_a_while(timeout: float | None = None, **kwargs: Any) -> Any:
        if timeout is not None and holds():
            timeout = min(timeout, DRAIN_SECONDS)
        return drain(timeout=timeout, **kwargs)

    connection.drain_events = drain_for_a_while


def keep_jobs(pool: Any) -> None:
    """Let a prefork pool remember what it runs.

    When the connection is lost, Celery strikes runs from its table of jobs, and then takes no
    notice of their results, crashes and time limits: 5.4 and 5.5 all of them, later ones those
    that a process was given and whose start has not been heard of yet. It also takes the
    processes of the latter for free.

    Args:
        pool: The worker's pool.
    """
    processes = getattr(pool, "_pool", None)
    jobs, flush = getattr(processes, "_cache", None), getattr(pool, "flush", None)
    if jobs is None or flush is None:
        return

    def flush_what_waits() -> None:
        begun = [(number, job) for number, job in jobs.items() if _has_begun(job)]
        flush()
        kept = [(number, job) for number, job in begun if not job.ready() and _may_end(job)]
        jobs.update(kept)
        busy: set[int] = getattr(processes, "_busy_workers", set())
        busy.update(job._write_to.inqW_fd for _, job in kept if _is_alive(job))  # noqa: SLF001

    pool.flush = flush_what_waits


def _has_begun(job: Any) -> bool:
    """Whether a process runs it; of plain tasks only as far as Celery itself knows."""
    if job.accepted():
        return bool(_FORGETS_JOBS)
    request = getattr(job._accept_callback, "__self__", None)  # noqa: SLF001
    return isinstance(request, ItemRequest) and job._write_to is not None  # noqa: SLF001


def _may_end(job: Any) -> bool:
    """Whether its end can still be heard of; what is not kept is released after the reconnect."""
    return bool(job.accepted()) or _is_alive(job)


def _is_alive(job: Any) -> bool:
    process = job._write_to  # noqa: SLF001 - where the pool itself looks
    return process is not None and bool(process._is_alive())  # noqa: SLF001


def pool_size(pool: Any) -> int:
    """How many runs a pool takes at once.

    Celery 5.4 gives the greenlets that run for the number of a gevent pool.

    Args:
        pool: The worker's pool.
    """
    if type(pool).__module__.endswith("gevent"):
        return int(pool._pool.size)  # noqa: SLF001 - what `grow` and `shrink` change
    return int(pool.num_processes)


def can_stop(pool: Any) -> bool:
    """Whether a pool can stop a run; what all pools inherit raises NotImplementedError.

    Args:
        pool: The worker's pool.
    """
    return getattr(pool.terminate_job, "__func__", None) is not BasePool.terminate_job
