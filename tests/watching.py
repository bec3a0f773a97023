"""Watches a number while something else happens."""

import threading
from collections.abc import Callable
from typing import Self

PAUSE_SECONDS = 0.001


class Highest:
    """Reads a number all the time in a thread and keeps the highest one; a context manager.

    Args:
        read: Gives the number.

    Attributes:
        value: The highest so far.
        reads: How often it was read.
    """

    def __init__(self, read: Callable[[], int]) -> None:
        self._read, self._ended = read, threading.Event()
        self.value, self.reads = 0, 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        # Two watchers without a pause keep two processors, and everything else waits for seconds.
        while not self._ended.wait(PAUSE_SECONDS):
            self.value = max(self.value, self._read())
            self.reads += 1
