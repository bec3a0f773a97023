"""The app: a page, its files, what it reads, and what it may do.

Invariants: it needs no start-up and no shutdown of its own, so that it can be mounted anywhere; its
addresses are relative; an answer says nothing about where Redis is.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from vtrr_queue.errors import ArgumentError, ArgumentTypeError, VTRRError
from vtrr_queue.web.desk import SORTS, Desk, View
from vtrr_queue.web.guard import Guard, HostNames, SecurityHeaders, check_host_names
from vtrr_queue.web.live import EventStream, Feeds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from starlette.requests import Request

    from vtrr_queue.engine import Engine
    from vtrr_queue.survey import Sort
    from vtrr_queue.web.desk import Queue

    Endpoint = Callable[[Request], Awaitable[Response | EventStream]]

logger = logging.getLogger(__name__)

THREADS = 4
"""Threads that talk to Redis."""

BODY_MAX = 200_000
"""Largest request that is read, bytes."""

FILES = ("page.html", "page.css", "page.js", "rows.js", "acts.js", "chart.js", "icon.svg")

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

SILENT = "Redis does not answer"
"""All that a viewer learns about a failure; the log has the rest."""


def create_app(
    *queues: Queue | Engine,
    token: str | None = None,
    show_payloads: bool = False,
    refresh_seconds: float = 2.0,
    allow_hosts: Collection[str] | None = None,
) -> Starlette:
    """Make the web page of queues: an ASGI app to run alone or to mount.

    Args:
        *queues: A :class:`~vtrr_queue.VTRRQueue` each, or an :class:`~vtrr_queue.engine.Engine`
            where there is no Celery app.
        token: Who knows it may pause, resume, set shares, caps and rates, requeue and drop; at
            least 16 characters. The page is read-only without one.
        show_payloads: Show the arguments, exceptions and tracebacks of dead letters.
        refresh_seconds: Time between two looks at Redis while somebody looks at the page.
        allow_hosts: Names under which it may be asked for, without port; ``"*.example.com"`` is
            every name below. None for any: then what is around it must check them.

    Returns:
        The app. It starts nothing before the first viewer comes, and needs no lifespan events.

    Raises:
        ArgumentError: A value is out of range.
        ArgumentTypeError: A type is wrong.
    """
    if isinstance(refresh_seconds, bool) or not isinstance(refresh_seconds, int | float):
        raise ArgumentTypeError("refresh_seconds", refresh_seconds, "a number")
    if not 0.1 <= refresh_seconds <= 3600:  # noqa: PLR2004 - as the error says
        raise ArgumentError("refresh_seconds", refresh_seconds, "from 0.1 to 3600")
    desks = [Desk(queue, show_payloads=show_payloads) for queue in queues]
    if not desks or len({desk.name for desk in desks}) < len(desks):
        names = [desk.name for desk in desks]
        raise ArgumentError("queues", names, "one queue or more, of different names")
    site = Site(desks, Guard(token), Feeds(float(refresh_seconds)))
    allowed = check_host_names(allow_hosts)
    middleware = [Middleware(SecurityHeaders), Middleware(HostNames, allowed)]
    return Starlette(routes=site.routes(), middleware=middleware)


class Site:
    """Answers requests.

    Args:
        desks: The queues.
        guard: Who may act.
        feeds: Keeps viewers up to date.
    """

    def __init__(self, desks: list[Desk], guard: Guard, feeds: Feeds) -> None:
        self._desks = {desk.name: desk for desk in desks}
        self._guard, self._feeds = guard, feeds
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="vtrr-web")

    def routes(self) -> list[Route]:
        """Where everything is."""
        folder = files("vtrr_queue.web") / "static"
        routes = [
            Route("/" if name == "page.html" else f"/{name}", _file((folder / name).read_bytes(),
                  TYPES[name.rpartition(".")[2]])) for name in FILES
        ]  # fmt: skip
        return [
            *routes,
            Route("/about", _answering(self.about)),
            Route("/state", _answering(self.state)),
            Route("/events", _answering(self.events)),
            Route("/why", _answering(self.why)),
            Route("/do/{action}", _answering(self.act), methods=["POST"]),
        ]

    async def about(self, _request: Request) -> Response:
        """What does not change: the queues, and whether anybody may act."""
        about = {"queues": list(self._desks), "sorts": SORTS, "readOnly": self._guard.read_only}
        return _json(about)

    async def state(self, request: Request) -> Response:
        """A view as it is now."""
        view = self._view(request)
        return _json(await self._in_thread(self._desks[view.queue].read, view))

    async def events(self, request: Request) -> EventStream:
        """A view as it changes."""
        view = self._view(request)
        self._feeds.check_room(view)
        return EventStream(self._feeds, view, functools.partial(self._read_for_feed, view))

    async def why(self, request: Request) -> Response:
        """Why a partition waits."""
        desk = self._desks[self._view(request).queue]
        partition = request.query_params.get("partition", "")
        return _json(await self._in_thread(desk.why, partition))

    async def act(self, request: Request) -> Response:
        """Carry out an action of somebody who may."""
        refusal = self._guard.refusal(request)
        if refusal:
            logger.warning(
                "refused %r from %s: %s", request.path_params["action"], _asker(request), refusal
            )
            return _json({"error": refusal}, 403)
        body = await _body(request)
        desk, action = self._desk(body.get("queue")), request.path_params["action"]
        if action == "check":
            return _json({"done": 0})
        done = await self._in_thread(desk.act, action, body)
        about = {key: value for key, value in body.items() if key != "queue"}
        logger.info("%s on queue %r from %s: %r", action, desk.name, _asker(request), about)
        return _json(done)

    async def _read_for_feed(self, view: View) -> dict[str, Any]:
        """A feed goes on whatever a single read meets."""
        try:
            return await self._in_thread(self._desks[view.queue].read, view)
        except VTRRError as exc:
            logger.warning("cannot read queue %r: %s", view.queue, exc)
        except Exception:
            logger.exception("cannot read queue %r", view.queue)
        return {"error": SILENT}

    def _view(self, request: Request) -> View:
        asked = request.query_params
        desk = self._desk(asked.get("queue", next(iter(self._desks))))
        return View(desk.name, cast("Sort", asked.get("sort", "backlog")), asked.get("find", ""))

    def _desk(self, name: object) -> Desk:
        if not isinstance(name, str) or name not in self._desks:
            raise ArgumentError("queue", name, f"one of {', '.join(self._desks)}")
        return self._desks[name]

    async def _in_thread(
        self, function: Callable[..., dict[str, Any]], *args: object
    ) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(function, *args))


def _answering(answer: Callable[[Request], Awaitable[Any]]) -> Endpoint:
    """Turn our errors into answers."""

    async def endpoint(request: Request) -> Response | EventStream:
        try:
            response: Response | EventStream = await answer(request)
        except (ArgumentError, ArgumentTypeError) as exc:
            return _json({"error": str(exc)}, 400)
        except VTRRError as exc:
            logger.warning("%s: %s", request.url.path, exc)
            return _json({"error": SILENT}, 503)
        return response

    return endpoint


def _file(content: bytes, kind: str) -> Endpoint:
    async def endpoint(_request: Request) -> Response:
        return Response(content, headers={"Content-Type": kind, "Cache-Control": "no-cache"})

    return endpoint


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("Content-Type", "").partition(";")[0] != "application/json":
        raise ArgumentError("Content-Type", request.headers.get("Content-Type"), "application/json")
    raw = b""
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > BODY_MAX:
            raise ArgumentError("body", "(too long)", f"at most {BODY_MAX} bytes")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as exc:
        raise ArgumentError("body", raw[:80], "a JSON object") from exc
    if not isinstance(body, dict):
        raise ArgumentTypeError("body", body, "a JSON object")
    return body


def _asker(request: Request) -> str:
    """Address a request came from, as the web server has it."""
    return request.client.host if request.client else "unknown"


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return JSONResponse(content, status, headers={"Cache-Control": "no-store"})
