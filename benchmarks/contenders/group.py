"""The workers of one contender, and the rate at which they drain what was enqueued before.

Invariants: all items wait before the first worker starts; each item appends one byte to a file
when it is done, so the file's size is how many are; the time that the start takes isn't counted.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from benchmarks.contenders import APPS, CONCURRENCY
from benchmarks.contenders.environment import programs
from tests.processes import spawn

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.contenders import Contender

_POLL_SECONDS = 0.002
_CALL_SECONDS = 120.0
_STUCK_SECONDS = 30.0
"""Longest without a single item done."""

FIRST_SHARE = 0.1
"""Part of the items that isn't measured, as pools are still starting."""


class DrainFailed(Exception):
    """A contender did not drain its queue; the text says what its workers wrote."""


@dataclass(frozen=True)
class Setting:
    """What one drain is made of.

    Attributes:
        url: Server and database of the contender, empty.
        folder: Where its files go.
        pool: One of ``benchmarks.contenders.POOLS``.
        seconds: What an item takes; 0 for nothing.
        items: How many.
    """

    url: str
    folder: Path
    pool: str
    seconds: float
    items: int


class Group:
    """The worker processes of one contender; a context manager that ends them.

    Args:
        contender: Whose.
        setting: What they drain.
    """

    def __init__(self, contender: Contender, setting: Setting) -> None:
        self._contender, self._setting = contender, setting
        self._trace, self._log = setting.folder / "trace", setting.folder / "log"
        self._trace.write_bytes(b"")
        self._programs = programs(contender.peer)
        self._environment = {
            **os.environ,
            "BENCH_URL": setting.url,
            "BENCH_TRACE": str(self._trace),
            "BENCH_SECONDS": str(setting.seconds),
            "BENCH_CONCURRENCY": str(CONCURRENCY.get(setting.pool, 1)),
            "BENCH_VARIANT": contender.variant,
            "PYTHONPATH": str(APPS),
            "PYTHONDONTWRITEBYTECODE": "",
            "TMPDIR": str(setting.folder),
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def call(self, function: str, count: int) -> None:
        """Have the contender's app enqueue items.

        Args:
            function: Name of what does it.
            count: How many.

        Raises:
            DrainFailed: It could not.
        """
        command = [str(self._programs / "python"), str(APPS / "call.py"), self._contender.app]
        with self._log.open("ab") as log:
            process = spawn(
                [*command, function, str(count)],
                env=self._environment, cwd=APPS, stdout=log, stderr=log,
            )  # fmt: skip
            try:
                code = process.wait(_CALL_SECONDS)
            finally:
                process.kill()
        if code:
            raise DrainFailed(f"{function} ended with exit code {code}\n{self._tail()}")

    def start(self) -> None:
        """Start the workers; they take items as soon as they can."""
        text = self._contender.commands[self._setting.pool].format(url=self._setting.url)
        program, *arguments = shlex.split(text)
        for _ in range(self._contender.processes(self._setting.pool)):
            with self._log.open("ab") as log:
                self._processes.append(
                    spawn(
                        [str(self._programs / program), *arguments],
                        env=self._environment, cwd=APPS, stdout=log, stderr=log,
                        start_new_session=True,
                    )
                )  # fmt: skip

    def done(self) -> int:
        """Items done so far."""
        return self._trace.stat().st_size

    def rate(self) -> float:
        """Wait for the end; items a second from a tenth of them to the last.

        Raises:
            DrainFailed: The workers ended, or did nothing for long.
        """
        first = self.until(self.done, int(self._setting.items * FIRST_SHARE))
        began, last = time.perf_counter(), self.until(self.done, self._setting.items)
        return (last - first) / (time.perf_counter() - began)

    def waits(self) -> list[float]:
        """Seconds that items waited, where the app notes them."""
        path = self._trace.with_name(self._trace.name + ".waits")
        return [float(line) for line in path.read_text().splitlines()] if path.exists() else []

    def until(self, count: Callable[[], int], wanted: int) -> int:
        """Wait until something has been counted so often; what was counted then.

        Args:
            count: Counts.
            wanted: How many at least.

        Raises:
            DrainFailed: The workers ended, or did nothing for long.
        """
        seen, moved = (-1, -1), time.monotonic()
        while (found := count()) < wanted:
            now = (found, self.done())
            if now != seen:
                seen, moved = now, time.monotonic()
            ended = [process for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() - moved > _STUCK_SECONDS:
                why = "a worker ended" if ended else f"nothing done for {_STUCK_SECONDS:g} s"
                raise DrainFailed(f"{why} after {found} of {wanted} items\n{self._tail()}")
            time.sleep(_POLL_SECONDS)
        return found

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])


def drain(contender: Contender, setting: Setting) -> float:
    """Fill, start, and measure one drain; items a second.

    Raises:
        DrainFailed: It did not come to its end.
        NotInstalled: The contender can't be had here.
    """
    with Group(contender, setting) as group:
        group.call("fill", setting.items)
        group.start()
        return group.rate()
