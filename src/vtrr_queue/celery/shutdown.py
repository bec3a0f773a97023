"""Finds runs whose pool process died while the worker shuts down, sooner than Celery does.

Celery then looks at one process after the other and waits half a second at each that has nothing
to say, so the end of a pool of 16 is known after seconds.

Invariant: a run whose result is on its way is left to Celery.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from vtrr_queue.celery.request import Fate, shutting_down

if TYPE_CHECKING:
    from vtrr_queue.celery.feed import Feed
    from vtrr_queue.celery.worker import Feeder

LOOK_SECONDS = 0.05
"""Pause between two looks, s. What both of them see dead has no result on its way."""

_ENDED_WELL = {None, 0, 155}
"""Exit codes of a process that lives, was told to end, or was replaced after its work."""


class LastLook:
    """Looks for dead processes of a prefork pool.

    Args:
        feeder: The worker's feeder.
    """

    def __init__(self, feeder: Feeder) -> None:
        self._feeder = feeder
        self._dead: set[int] = set()

    def release(self, feeds: list[Feed]) -> None:
        """Give back what dead processes ran; to be called again and again.

        Args:
            feeds: All queues of the worker.
        """
        before, self._dead = self._dead, _dead_without_a_word(self._feeder.consumer.pool)
        dead = before & self._dead
        for held in (each for feed in feeds for each in feed.running() if each.started):
            if held.request.worker_pid in dead and (shutting_down() or held.request.vtrr_cancelled):
                held.request.vtrr_settle(Fate.RELEASE, "worker shutdown")


def _dead_without_a_word(pool: Any) -> set[int]:
    processes = getattr(getattr(pool, "_pool", None), "_pool", ())
    return {
        process.pid
        for process in tuple(processes)
        if getattr(process, "exitcode", None) not in _ENDED_WELL and not _unread(process)
    }


def _unread(process: Any) -> bool:
    """Whether its result pipe holds what nobody has read yet."""
    if sys.platform == "win32":  # no prefork there
        return True
    import fcntl  # noqa: PLC0415 - not on every platform
    import termios  # noqa: PLC0415

    with contextlib.suppress(AttributeError, OSError, ValueError):
        waiting = fcntl.ioctl(process.outq._reader.fileno(), termios.FIONREAD, bytes(4))  # noqa: SLF001
        return int.from_bytes(waiting, sys.byteorder) > 0
    return True
