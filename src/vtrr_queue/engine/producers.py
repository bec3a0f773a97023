"""Who enqueues: numbers that make a repeated call known for what it is."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Producers:
    """Numbers the calls of this process, so that a repeated call is known for what it is.

    A producer has one call under way at a time. One whose call failed is not used again: its call
    may still be on the way. A child after a fork has producers of its own.
    """

    def __init__(self) -> None:
        self._idle: deque[tuple[int, str, itertools.count[int]]] = deque()

    @contextlib.contextmanager
    def take(self) -> Iterator[tuple[str, int]]:
        """A producer for one call, and the number of that call."""
        try:
            owner, producer, numbers = self._idle.popleft()
        except IndexError:
            owner = 0
        if owner != os.getpid():
            owner, producer, numbers = os.getpid(), secrets.token_hex(8), itertools.count(1)
        yield producer, next(numbers)
        self._idle.append((owner, producer, numbers))
