"""Mends faults of Celery: two that an outage of its broker brings out, and the size of a pool.

The first two hit plain tasks as well; ours are hit harder, because a lease is held until the run's
end is known.
"""

from __future__ import annotations

from typing import Any

import celery
from celery.utils.log import get_logger

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


def keep_jobs(pool: Any) -> None:
    """Let a prefork pool remember what it runs.

    Celery 5.4 and 5.5 empty its table of jobs when the connection is lost, and then take no
    notice of results, crashes and time limits of what was running.

    Args:
        pool: The worker's pool.
    """
    jobs = getattr(getattr(pool, "_pool", None), "_cache", None)
    flush = getattr(pool, "flush", None)
    if not _FORGETS_JOBS or jobs is None or flush is None:
        return

    def flush_what_waits() -> None:
        accepted = [(number, job) for number, job in jobs.items() if job.accepted()]
        flush()
        jobs.update((number, job) for number, job in accepted if not job.ready())

    pool.flush = flush_what_waits


def pool_size(pool: Any) -> int:
    """How many runs a pool takes at once.

    Celery 5.4 gives the greenlets that run for the number of a gevent pool.

    Args:
        pool: The worker's pool.
    """
    if type(pool).__module__.endswith("gevent"):
        return int(pool._pool.size)  # noqa: SLF001 - what `grow` and `shrink` change
    return int(pool.num_processes)
