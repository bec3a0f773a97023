"""Starts and ends the processes of the demo.

Invariants: every child leads a process group of its own, so Ctrl-C in the terminal reaches
the demo alone, which then ends the groups in the right order; on Linux a child dies with
the demo even when that is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

POLL_SECONDS = 0.05

_PR_SET_PDEATHSIG = 1
# Set in the child and kept when it becomes the program. It is bound to the thread that
# starts the child: the main one, which lives as long as the demo.
_DIE_WITH_DEMO = (
    "import ctypes, os, sys;"
    f"ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)});"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def spawn(
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program whose output goes to a file.

    Args:
        command: Absolute path of the program, and its arguments.
        log: File that output is appended to.
        environment: Environment of the child; the demo's own by default.

    Returns:
        The process, leader of its group.
    """
    if hasattr(ctypes.CDLL(None), "prctl"):
        command = [sys.executable, "-S", "-c", _DIE_WITH_DEMO, *command]
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def end(processes: Sequence[subprocess.Popen[bytes]], grace_seconds: float = 0.0) -> None:
    """End processes and all that they started, by force when the time of grace is over.

    Args:
        processes: Leaders of the groups.
        grace_seconds: How long they have together to end in good order.
    """
    if grace_seconds:
        for process in processes:
            process.terminate()
        wait_until(lambda: all(p.poll() is not None for p in processes), grace_seconds)
    for process in processes:
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
