"""Starts and ends the processes of the demo.

Invariant: every child leads a process group of its own, so Ctrl-C in the terminal reaches
the demo alone, which then ends the groups in the right order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

POLL_SECONDS = 0.05
GRACE_SECONDS = 4.0


def spawn(
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program whose output goes to a file.

    Args:
        command: Program and arguments.
        log: File that output is appended to.
        environment: Environment of the child; the demo's own by default.

    Returns:
        The process, leader of its group.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes and all that they started: politely, then by force.

    Args:
        processes: Leaders of the groups; they share one time of grace.
    """
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        # Children outlive a leader that crashed; a group without members is no error.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(condition: Callable[[], bool], timeout_seconds: float) -> bool:
    """Look again and again until something holds.

    Args:
        condition: What to look at; it raises to give up early.
        timeout_seconds: How long to go on.

    Returns:
        Whether it came to hold in time.
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def tail(log: Path, lines: int = 20) -> str:
    """Read the end of a log file.

    Args:
        log: The file; it may not exist.
        lines: Most lines to return.
    """
    with suppress(OSError):
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    return ""
