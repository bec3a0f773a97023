"""How a run ends before its time: by a signal or by a failure.

Invariant: a signal only leaves a note; the run looks at it where stopping is safe, so no
process is started and then forgotten, and clean-up is never cut short.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoFailed(Exception):
    """The demo could not show what it should.

    Args:
        reason: What went wrong.
        logs: The end of the log files; empty when they don't matter.
    """

    def __init__(self, reason: str, logs: str = "") -> None:
        self.reason, self.logs = reason, logs
        super().__init__(reason)


class Stopped(Exception):
    """The user or the system asked the demo to stop.

    Args:
        signum: The signal that came.
    """

    def __init__(self, signum: int) -> None:
        self.signum = signum
        super().__init__(f"stopped by {signal.Signals(signum).name}")

    @property
    def exit_code(self) -> int:
        """What a shell reports for a process that died of this signal, 130 for Ctrl-C."""
        return 128 + self.signum


class StopRequest:
    """Remembers the first signal that asks the process to stop."""

    def __init__(self) -> None:
        self._signum: int | None = None

    @contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Take the signals until the block ends, then give them back."""
        previous = {signum: signal.signal(signum, self._note) for signum in SIGNALS}
        try:
            yield self
        finally:
            for signum, handler in previous.items():
                signal.signal(signum, handler)

    def check(self) -> None:
        """Go on only when nobody asked to stop.

        Raises:
            Stopped: A signal came.
        """
        if self._signum is not None:
            raise Stopped(self._signum)

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        if self._signum is None:
            self._signum = signum
