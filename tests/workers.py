"""Real `celery worker` processes for tests.

Invariants: each worker leads its own process group and writes to its own log file; nothing of
it outlives the test run; every failure shows the end of the log.
"""

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from types import TracebackType
from typing import Self

import psutil

from tests.processes import spawn
from tests.waiting import eventually

APPS = Path(__file__).with_name("apps")

_READY_SECONDS = 30.0
_STOP_SECONDS = 15.0
_TAIL_LINES = 40
_numbers = itertools.count(1)


class Worker:
    """One worker; a context manager that starts it, waits until it is ready, and ends it.

    Args:
        module: Module of the app, looked up in tests/apps.
        queues: Celery queues to consume; empty takes the app's.
        env: More environment variables (addresses and settings of the app).
        log_path: File that gets everything the worker writes.
        pool: "prefork", "threads", "solo" or "gevent".
        concurrency: Pool size.
        args: More arguments for `celery worker`.
        cwd: Folder of the app's module.
    """

    def __init__(
        self,
        module: str,
        *,
        log_path: Path,
        queues: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        pool: str = "prefork",
        concurrency: int = 2,
        args: Sequence[str] = (),
        cwd: Path = APPS,
    ) -> None:
        self.name = f"worker{next(_numbers)}-{os.getpid()}"
        self.log_path = log_path
        self.cwd = cwd
        self.env = {**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})}
        self.command = [
            *(sys.executable, "-m", "celery", "-A", module, "worker", "-n", f"{self.name}@%h"),
            *("-P", pool, "-c", str(concurrency), "-l", "INFO"),
            *(("-Q", ",".join(queues)) if queues else ()),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            *args,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.kill_group()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill_group()
        if exc is not None:
            exc.add_note(self.tail())

    def start(self) -> None:
        """Start the process; `wait_ready` waits for it."""
        with self.log_path.open("ab") as log:
            self._process = spawn(
                self.command,
                cwd=self.cwd,
                env=self.env,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self, timeout: float = _READY_SECONDS) -> None:
        """Wait until it consumes its queues."""
        self.wait_for_log(" ready.", timeout)

    def wait_for_log(self, text: str, timeout: float = 10.0) -> None:
        """Wait until the log contains the text."""
        eventually(
            lambda: text in self.log() or not self.is_running(), timeout, f"{text!r} in the log"
        )
        assert text in self.log(), f"the worker ended, no {text!r}\n{self.tail()}"

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The main process."""
        assert self._process is not None, "the worker was not started"
        return self._process

    @property
    def pid(self) -> int:
        """Process id of the main process, and id of the group."""
        return self.process.pid

    def is_running(self) -> bool:
        """Tell whether the main process lives."""
        return self._process is not None and self._process.poll() is None

    def children(self) -> list[int]:
        """Return the pool's process ids (prefork)."""
        try:
            return [child.pid for child in psutil.Process(self.pid).children()]
        except psutil.NoSuchProcess:
            return []

    def signal(self, number: Signals) -> None:
        """Send a signal to the main process only."""
        self.process.send_signal(number)

    def signal_group(self, number: Signals) -> None:
        """Send a signal to the main process and the pool, as systemd does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait(self, timeout: float = _STOP_SECONDS) -> int:
        """Wait for the end and return the exit code."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            msg = f"the worker did not end within {timeout} s\n{self.tail()}"
            raise AssertionError(msg) from None

    def stop(self, timeout: float = _STOP_SECONDS) -> int:
        """Shut down warmly (SIGTERM) and return the exit code."""
        if self.is_running():
            self.signal(SIGTERM)
        return self.wait(timeout)

    def kill_group(self) -> None:
        """Kill (SIGKILL) the main process and the pool."""
        if self._process is not None:
            self.signal_group(SIGKILL)
            self._process.wait(_STOP_SECONDS)

    def log(self) -> str:
        """Return everything written so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def tail(self) -> str:
        """Return the end of the log under a heading."""
        lines = self.log().splitlines()[-_TAIL_LINES:]
        return "\n".join([f"--- {self.name}: end of {self.log_path.name} ---", *lines])
