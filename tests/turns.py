"""Turns of tests among the processes of a parallel run: many at a time, or one alone.

Invariants: while a test is alone none runs in another process; who waits to be alone is not
overtaken; a process that dies gives up its turn.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


@contextmanager
def turn(folder: Path, *, alone: bool) -> Iterator[None]:
    """Wait for a turn and keep it for the block.

    Args:
        folder: A folder that the processes share, for nothing else.
        alone: Whether nobody else may have a turn meanwhile.
    """
    with ExitStack() as stack:
        with _locked(folder / "gate", fcntl.LOCK_EX):  # kept while waiting: nobody slips by
            kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
            stack.enter_context(_locked(folder / "floor", kind))
        yield


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    """Hold a lock of the operating system; waits for it without a limit."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, kind)
        yield
    finally:
        os.close(handle)
