"""Keeps viewers up to date: one reader for all of them, none when nobody looks.

Invariants: a view is read by one task, however many look at it; the task ends with the last
viewer; reading happens in threads of our own, so that a slow Redis takes none of the host's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

from vtrr_queue.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from starlette.types import Receive, Scope, Send

VIEWS_AT_ONCE = 32
"""Most different views that are read at once; more could be a way to load Redis."""

REST = 4
"""A reader rests at least so many times as long as its last read took."""

STREAM_SECONDS = 50.0
"""Longest a stream lasts, s; browsers come back by themselves. It bounds a server's shutdown, and
what is lost where an adapter does not tell that the viewer has gone."""

SEND_SECONDS = 10.0
"""Longest one message may take to be sent, s; then the viewer is gone."""


class Feed:
    """One view and those who look at it.

    Args:
        read: Awaited for what is shown, anything that JSON can carry.
        pause: Time between two reads, s.
    """

    def __init__(self, read: Callable[[], Awaitable[Any]], pause: float) -> None:
        self._read, self._pause = read, pause
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self.viewers = 0
        self.number = 0
        self.message = ""

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Somebody looks: there is news until the block ends."""
        self.viewers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._go_on())
        try:
            yield
        finally:
            self.viewers -= 1
            if not self.viewers:
                self._task.cancel()
                self._task = None

    async def next(self, seen: int) -> tuple[int, str]:
        """Wait for a message that is newer than one that was seen.

        Returns:
            Its number and its text.
        """
        while self.number <= seen:
            await self._news.wait()
        return self.number, self.message

    async def _go_on(self) -> None:
        while True:
            started = time.monotonic()
            self.message = json.dumps(await self._read(), separators=(",", ":"))
            self.number += 1
            news, self._news = self._news, asyncio.Event()
            news.set()
            took = time.monotonic() - started
            await asyncio.sleep(max(self._pause, REST * took))


class Feeds:
    """The feeds that somebody looks at.

    Args:
        pause: Time between two reads of a feed, s.
    """

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._feeds: dict[object, Feed] = {}

    def check_room(self, view: object) -> None:
        """Refuse a view that would be one too many.

        Raises:
            ArgumentError: Too many different views are looked at.
        """
        if view not in self._feeds and len(self._feeds) >= VIEWS_AT_ONCE:
            raise ArgumentError("view", "one more", f"one of {VIEWS_AT_ONCE} at a time")

    @contextlib.contextmanager
    def looking(self, view: object, read: Callable[[], Awaitable[Any]]) -> Iterator[Feed]:
        """Look at a view, with everybody else who does.

        Args:
            view: What is looked at; viewers of an equal view share its reader.
            read: As for :class:`Feed`.

        Raises:
            ArgumentError: Too many different views are looked at.
        """
        feed = self._feeds.get(view)
        if feed is None:
            self.check_room(view)
            feed = self._feeds[view] = Feed(read, self._pause)
        try:
            with feed.looking():
                yield feed
        finally:
            if not feed.viewers:
                self._feeds.pop(view, None)


class EventStream:
    """The answer to a viewer: server-sent events until one side has enough.

    Args:
        feeds: Where the view is kept.
        view: See :meth:`Feeds.looking`.
        read: See :meth:`Feeds.looking`.
    """

    def __init__(self, feeds: Feeds, view: object, read: Callable[[], Awaitable[Any]]) -> None:
        self._feeds, self._view, self._read = feeds, view, read

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is read until the viewer has gone or the stream is old."""
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store, no-transform"),
            (b"x-accel-buffering", b"no"),  # nginx would hold it back
        ]
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            with self._feeds.looking(self._view, self._read) as feed:
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await self._pass_on(feed, gone, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()

    async def _pass_on(self, feed: Feed, gone: asyncio.Future[None], send: Send) -> None:
        ends = time.monotonic() + STREAM_SECONDS
        seen = feed.number - 1 if feed.number else 0  # the latest message comes at once
        while not gone.done() and time.monotonic() < ends:
            news = asyncio.ensure_future(feed.next(seen))
            try:
                waited: set[asyncio.Future[Any]] = {news, gone}
                await asyncio.wait(waited, timeout=ends - time.monotonic(),
                                   return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
                if not news.done():
                    return
                seen, message = news.result()
            finally:
                news.cancel()
            body = f"retry: 1000\ndata: {message}\n\n".encode()
            chunk = {"type": "http.response.body", "body": body, "more_body": True}
            try:
                await asyncio.wait_for(send(chunk), SEND_SECONDS)
            except (TimeoutError, OSError):
                return


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
