"""The item of the drain benchmark: works for a time, then appends one byte to a file.

It runs in the Python of each contender, so it needs nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time

URL = os.environ["BENCH_URL"]
"""Server and database number of the contender's own."""

CONCURRENCY = int(os.environ["BENCH_CONCURRENCY"])
"""Items that one process runs at once, for contenders that are told in their code."""

# A line an item would be what some contenders write by default, and others not.
logging.disable(logging.INFO)

_SECONDS = float(os.environ["BENCH_SECONDS"])
_TRACE = os.open(os.environ["BENCH_TRACE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def run(_number: int) -> None:
    """The item of a contender that runs functions."""
    if _SECONDS:
        time.sleep(_SECONDS)
    os.write(_TRACE, b".")


async def run_async(_number: int) -> None:
    """The item of a contender that runs coroutines."""
    if _SECONDS:
        await asyncio.sleep(_SECONDS)
    os.write(_TRACE, b".")
