"""How programs beside the workers find a queue: by an address and a name, or in a Celery app.

The command line, the exporter and the web page take the same options and refuse the same mistakes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import redis

from vtrr_queue.engine import Engine
from vtrr_queue.errors import ArgumentError
from vtrr_queue.model import LONGEST_SECONDS, DeadLetterRules

if TYPE_CHECKING:
    from collections.abc import Mapping

URL_VARIABLE = "VTRR_REDIS_URL"
"""Environment variable with the address; it keeps a password out of the process list."""

KEEP_ALL = DeadLetterRules(max_letters=1_000_000_000, max_age_seconds=LONGEST_SECONDS)
"""Bounds of dead letters for a program that does not know those of the app: none."""


def open_engine(url: str | None, name: str | None, socket_timeout: float = 2.0) -> Engine:
    """The queue of this name on the server at this address.

    What the app set is not known here, so no limits are declared, no triggers are sent and no
    dead letter is trimmed. Workers are told of what became servable: they pull it, or send the
    triggers.

    Args:
        url: ``redis://[[user]:password@]host:port/db``, ``rediss://`` or ``unix://``; the
            environment variable ``VTRR_REDIS_URL`` when None.
        name: As given to ``VTRRQueue(name=)``.
        socket_timeout: Bound on connecting and on one reply, s.

    Raises:
        ArgumentError: No address or name is given, or one is wrong.
    """
    url = url or os.environ.get(URL_VARIABLE)
    if not url:
        raise ArgumentError("--redis", url or "", f"an address, here or in {URL_VARIABLE}")
    if not name:
        raise ArgumentError("--name", name or "", "the name of a queue")
    try:
        client = redis.Redis.from_url(url)
        client.connection_pool.make_connection()  # connects to nothing, refuses unknown settings
    except (ValueError, TypeError) as exc:
        raise ArgumentError("--redis", without_password(url), f"an address ({exc})") from exc
    return Engine(
        client, name, socket_timeout=socket_timeout, dead_letters=KEEP_ALL, wake=True
    )  # fmt: skip


def queues_of(app: Any) -> Mapping[str, Any]:
    """The queues of a Celery app by name, after its modules were imported as a worker does.

    Args:
        app: A Celery app.

    Returns:
        Mapping name -> :class:`~vtrr_queue.VTRRQueue`.
    """
    app.loader.import_default_modules()
    queues: dict[str, Any] = app.__dict__.get("vtrr_queues", {})
    return queues


def choose_queue(app: Any, name: str | None) -> Any:
    """The queue of this name, or the only one of an app.

    Raises:
        ArgumentError: There is none of this name, or several to choose from.
    """
    queues = queues_of(app)
    if not queues:
        raise ArgumentError("--app", app.main, "an app whose modules make a VTRRQueue")
    if name is None and len(queues) == 1:
        return next(iter(queues.values()))
    if name is None or name not in queues:
        raise ArgumentError("--queue", name or "", f"one of {', '.join(map(repr, sorted(queues)))}")
    return queues[name]


def without_password(url: str) -> str:
    """An address as it may be shown."""
    head, at, host = url.rpartition("@")
    return f"{head.partition('://')[0]}://***@{host}" if at else url
