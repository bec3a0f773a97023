"""The connection settings of a blocking pool, carried over to one of ``redis.asyncio``.

Invariant: a setting that asyncio connections do not have is refused by name, unless it asks for
nothing.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis, connection, sentinel
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

from vtrr_queue.errors import ArgumentError

if TYPE_CHECKING:
    from redis.connection import ConnectionPool as BlockingPool

    Pool = connection.ConnectionPool

MOST_CONNECTIONS = 64
"""Most connections of one event loop to the server."""

_KINDS: dict[type, type] = {
    SentinelManagedSSLConnection: sentinel.SentinelManagedSSLConnection,
    SentinelManagedConnection: sentinel.SentinelManagedConnection,
    SSLConnection: connection.SSLConnection,
    UnixDomainSocketConnection: connection.UnixDomainSocketConnection,
    Connection: connection.Connection,
}
"""Class of a blocking connection -> that of an asyncio one, the most special first."""

_POINTLESS = {"socket_type", "socket_read_size", "retry", "connection_pool", "event_dispatcher"}
_BLOCKING = {"redis_connect_func"}
"""Settings that asyncio has, too, with another meaning: a function that is awaited."""

_POINTLESS_PREFIXES = ("maint_", "orig_", "oss_", "cache")


def async_pools(pool: BlockingPool, socket_timeout: float) -> list[Pool]:
    """Pools of one event loop with the settings of a blocking one.

    Args:
        pool: The blocking pool.
        socket_timeout: Bound on connecting and on one reply, s.

    Returns:
        The pool to use, then those of the Sentinels it asks; all must be closed.

    Raises:
        ArgumentError: The connections are of a class, or have a setting, that asyncio lacks.
    """
    kind = _kind(pool)
    settings = _settings(pool, kind, socket_timeout)
    service, manager = getattr(pool, "service_name", None), getattr(pool, "sentinel_manager", None)
    if not (service and manager):
        made = connection.ConnectionPool(
            connection_class=kind, max_connections=MOST_CONNECTIONS, **settings
        )
        return [made]
    asked = [async_pools(each.connection_pool, socket_timeout)[0] for each in manager.sentinels]
    watch: Any = sentinel.Sentinel([], manager.min_other_sentinels)
    watch._force_master_ip = getattr(manager, "_force_master_ip", None)  # noqa: SLF001 - later than 5
    watch.sentinels = [Redis(connection_pool=each) for each in asked]
    found = sentinel.SentinelConnectionPool(
        service, watch, connection_class=kind, is_master=getattr(pool, "is_master", True),
        max_connections=MOST_CONNECTIONS, **settings,
    )  # fmt: skip
    return [found, *asked]


def _kind(pool: BlockingPool) -> type:
    for known, kind in _KINDS.items():
        if issubclass(pool.connection_class, known):
            return kind
    raise ArgumentError(
        "redis_client", pool.connection_class,
        "made with redis-py's own connection classes, to be used from coroutines",
    )  # fmt: skip


def _settings(pool: BlockingPool, kind: type, socket_timeout: float) -> dict[str, Any]:
    taken = {
        name for each in kind.__mro__ if "__init__" in vars(each)
        for name in inspect.signature(vars(each)["__init__"]).parameters
    }  # fmt: skip
    settings: dict[str, Any] = {}
    for name, value in pool.connection_kwargs.items():
        if name in _POINTLESS or name.startswith(_POINTLESS_PREFIXES):
            continue
        if name in taken and name not in _BLOCKING:
            settings[name] = value
        elif value:
            raise ArgumentError(f"redis_client ({name})", value, "left out: asyncio has no such")
    return settings | {
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": socket_timeout,
        "socket_connect_timeout": socket_timeout,
    }
