"""Waits for what other processes do, without bare sleeps in tests."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.02


def eventually(predicate: Callable[[], T], timeout: float = 10.0, what: str = "") -> T:
    """Poll until the predicate is true, and return what it returned.

    Args:
        predicate: Called every 20 ms. An `AssertionError` in it counts as not yet.
        timeout: Seconds until the test fails.
        what: What is waited for, for the message.

    Raises:
        AssertionError: It didn't happen in time; the message says what was last seen.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            last: object = (value := predicate())
            if value:
                return value
        except AssertionError as error:
            last = error
        if time.monotonic() >= deadline:
            what = what or getattr(predicate, "__name__", "it")
            msg = f"{what}: not within {timeout} s, last seen: {last!r}"
            raise AssertionError(msg)
        time.sleep(_POLL_SECONDS)
