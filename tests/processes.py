"""Starts processes that can't outlive the test run.

Invariant: what `spawn` starts ends with this process, also when that is killed.
"""

import ctypes
import signal
import subprocess
import sys
import threading
from typing import Any

_PR_SET_PDEATHSIG = 1
# Set before exec and kept by it. The signal comes when the starting *thread* ends, so only
# the main thread, which lives as long as the run, may ask for it.
_DIE_WITH_PARENT = (
    "import ctypes, os, sys;"
    f"ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)});"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def spawn(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a command by absolute path; it is killed when this process dies (on Linux)."""
    if threading.current_thread() is threading.main_thread() and hasattr(
        ctypes.CDLL(None), "prctl"
    ):
        command = [sys.executable, "-S", "-c", _DIE_WITH_PARENT, *command]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
