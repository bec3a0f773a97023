"""Clones the connection settings of a user's client into a pool of our own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from vtrr_queue.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from redis.connection import ConnectionPool

_DROPPED = {
    "retry", "retry_on_error", "retry_on_timeout", "protocol", "decode_responses", "encoding",
    "encoding_errors", "socket_timeout", "socket_connect_timeout", "parser_class",
    "event_dispatcher",
}  # fmt: skip
_DROPPED_PREFIXES = ("maint_", "orig_", "oss_", "cache")

_KINDS: dict[str, Any] = {
    each.__name__: each
    for each in (
        redis.Connection, redis.SSLConnection, redis.UnixDomainSocketConnection,
        SentinelManagedConnection, SentinelManagedSSLConnection,
    )
}  # fmt: skip
_VALKEYS_OWN = {"lib_name", "lib_version", "client_cache", "valkey_connect_func"}


class Place:
    """Where the keys of a queue are: one server, or the primary that Sentinel names.

    Args:
        pool: Connections to it.

    Attributes:
        is_lost: Whether it must be found again before the next attempt.
    """

    is_lost = False

    def __init__(self, pool: ConnectionPool) -> None:
        self.pool = pool

    def failed(self, failure: Exception) -> bool:  # noqa: ARG002 - one that can move looks at it
        """Take note of what an attempt ended with.

        Args:
            failure: The error.

        Returns:
            Whether it says nothing but that the keys are elsewhere.
        """
        return False

    def find(self) -> None:
        """Find it again when it is lost; may block.

        Raises:
            redis.ConnectionError: Nobody knows where it is.
        """


def private_pool(client: object, socket_timeout: float) -> ConnectionPool:
    """Clone a client's connection settings into a pool of our own.

    Args:
        client: The user's ``redis.Redis``, or a ``valkey.Valkey`` of valkey-py.
        socket_timeout: Bound on connecting and on one reply, s.

    Raises:
        ArgumentTypeError: It is neither.
        ArgumentError: It is bound to one connection, which cannot be shared.

    Source:
        redis-py 8 may hand a reply to the wrong caller after an interrupted read and repeats
        commands by itself; both are off here (RESP2, no retries).
    """
    if not isinstance(client, redis.Redis) and not is_valkey(client, "Valkey"):
        raise ArgumentTypeError("redis_client", client, "a redis.Redis or a redis.RedisCluster")
    if getattr(client, "connection", None) is not None:
        raise ArgumentError(
            "redis_client", client, "made without single_connection_client=True (it is not safe "
            "between threads and processes)",
        )  # fmt: skip
    pool = _as_redis_pool(cast("redis.Redis", client).connection_pool)
    settings = {
        key: value
        for key, value in pool.connection_kwargs.items()
        if key not in _DROPPED and not key.startswith(_DROPPED_PREFIXES)
    }
    settings |= {
        "decode_responses": False,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_timeout": False,
        "socket_timeout": socket_timeout,
        "socket_connect_timeout": socket_timeout,
    }
    settings.pop("connection_pool", None)
    service, manager = getattr(pool, "service_name", None), getattr(pool, "sentinel_manager", None)
    if service and manager:
        kind = {"connection_class": pool.connection_class}  # with TLS it is another one
        return SentinelConnectionPool(service, manager, **kind, **settings)
    return redis.ConnectionPool(connection_class=pool.connection_class, **settings)


def is_valkey(client: object, kind: str) -> bool:
    """Whether a client is of valkey-py, which is looked for and never imported.

    Args:
        client: The user's client.
        kind: "Valkey" or "ValkeyCluster".
    """
    package = sys.modules.get("valkey")
    return package is not None and isinstance(client, getattr(package, kind, ()))


def _as_redis_pool(given: ConnectionPool) -> ConnectionPool:
    """A pool of valkey-py, a fork of redis-py, as one of redis-py with the same settings."""
    pool: Any = given
    kind = pool.connection_class
    if not type(pool).__module__.startswith("valkey"):
        return given
    if not kind.__module__.startswith("valkey") or kind.__name__ not in _KINDS:
        raise ArgumentError("redis_client", kind, "made with valkey-py's own connection classes")
    settings = {
        name: value for name, value in pool.connection_kwargs.items()
        if name not in _VALKEYS_OWN and not name.startswith("cache")
    }  # fmt: skip
    settings["redis_connect_func"] = pool.connection_kwargs.get("valkey_connect_func")
    service, manager = getattr(pool, "service_name", None), getattr(pool, "sentinel_manager", None)
    if not (service and manager):
        return redis.ConnectionPool(connection_class=_KINDS[kind.__name__], **settings)
    settings.pop("connection_pool", None)
    watch: Any = Sentinel([], manager.min_other_sentinels)
    asked = [_as_redis_pool(each.connection_pool) for each in manager.sentinels]
    watch.sentinels = [redis.Redis(connection_pool=each) for each in asked]
    return SentinelConnectionPool(
        service, watch, connection_class=_KINDS[kind.__name__], is_master=pool.is_master, **settings
    )
