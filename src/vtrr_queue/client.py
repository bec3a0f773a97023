"""The library's private connection to Redis: calls scripts, repeats them safely, checks replies.

Invariants: the user's client is never used to run a command; a connection on which anything went
wrong is closed; a reply that does not echo its call is never returned. Calls are repeated here
and not by redis-py, because a script must know that it runs again
(docs/design/0003-idempotent-calls.md).
"""

from __future__ import annotations

import contextlib
import inspect
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    NoScriptError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)
from redis.retry import Retry

from vtrr_queue.errors import ArgumentError, ArgumentTypeError, Refused, ReplyMismatch, Unavailable
from vtrr_queue.scripting import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from redis.connection import AbstractConnection, ConnectionPool

    from vtrr_queue.model import Durability

ATTEMPTS = 3
"""How often a call is sent before :class:`~vtrr_queue.errors.Unavailable` is raised."""

BACKOFF_SECONDS = (0.02, 0.2)
"""Pauses before the second and the third attempt."""

_DROPPED = {
    "retry", "retry_on_error", "retry_on_timeout", "protocol", "decode_responses", "encoding",
    "encoding_errors", "socket_timeout", "socket_connect_timeout", "parser_class",
    "event_dispatcher",
}  # fmt: skip
_DROPPED_PREFIXES = ("maint_", "orig_", "oss_", "cache")
_AGAIN = (RedisConnectionError, RedisTimeoutError, BusyLoadingError, ReadOnlyError, OSError)
_AGAIN_WORDS = ("MASTERDOWN", "CLUSTERDOWN", "LOADING", "TRYAGAIN", "UNBLOCKED")
_MASKED = {signal.SIGTERM} | ({signal.SIGUSR1} if hasattr(signal, "SIGUSR1") else set())

SHORTEST_REPLY = 3
"""Status, echo and server time stand in every reply."""

Reply = list[Any]
Call = tuple[str, str, "Callable[[int], Sequence[Any]]"]
"""Script name, echo, and what gives the arguments after the echo for an attempt's number."""


def private_pool(client: object, socket_timeout: float) -> ConnectionPool:
    """Clone a client's connection settings into a pool of our own.

    Args:
        client: The user's ``redis.Redis``.
        socket_timeout: Bound on connecting and on one reply, s.

    Raises:
        ArgumentTypeError: It is no ``redis.Redis``.
        ArgumentError: It is bound to one connection, which cannot be shared.

    Source:
        redis-py 8 may hand a reply to the wrong caller after an interrupted read and repeats
        commands by itself; both are off here (RESP2, no retries).
    """
    if not isinstance(client, redis.Redis):
        raise ArgumentTypeError("redis_client", client, "a redis.Redis")
    if getattr(client, "connection", None) is not None:
        raise ArgumentError(
            "redis_client", client, "made without single_connection_client=True (it is not safe "
            "between threads and processes)",
        )  # fmt: skip
    pool = client.connection_pool
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
        from redis.sentinel import SentinelConnectionPool  # noqa: PLC0415

        return SentinelConnectionPool(service, manager, **settings)
    return redis.ConnectionPool(connection_class=pool.connection_class, **settings)


_GET_TAKES_NAME = (
    inspect.signature(redis.ConnectionPool.get_connection).parameters.get("command_name")
    is not None
    and inspect.signature(redis.ConnectionPool.get_connection).parameters["command_name"].default
    is inspect.Parameter.empty
)


class Unconfirmed(Exception):
    """Scripts ran, but what they wrote is not known to be safe.

    Args:
        replies: Replies of the scripts.
        cause: Why.
    """

    def __init__(self, replies: list[Reply], cause: object) -> None:
        self.replies, self.cause = replies, cause
        super().__init__(str(cause))


class ScriptClient:
    """Runs scripts over a private pool.

    Args:
        client: The user's ``redis.Redis``; only its settings are read.
        keys: Declared keys, passed to every script.
        socket_timeout: Bound on connecting and on one reply, s.

    Attributes:
        mask_signals: Hold back SIGTERM and SIGUSR1 during a call; set in pool children, where
            Celery's soft limit would otherwise break a read in the middle.
        calls: Script calls made so far in this process.
    """

    def __init__(self, client: object, keys: Sequence[str], socket_timeout: float) -> None:
        self.pool = private_pool(client, socket_timeout)
        self.socket_timeout = socket_timeout
        self.mask_signals = False
        self.calls = 0
        self._keys = tuple(keys)
        self._loaded: set[str] = set()
        self._clock = (0, 0.0)

    def server_now_ms(self) -> int:
        """Server clock now, from the last reply that told it; 0 when none did."""
        server_ms, at = self._clock
        return int(server_ms + (time.monotonic() - at) * 1000) if server_ms else 0

    def call(
        self,
        name: str,
        echo: str,
        arguments: Callable[[int], Sequence[Any]],
        confirm: Durability | None = None,
    ) -> Reply:
        """Run one script until it answers.

        Args:
            name: Script name.
            echo: What the reply must carry in second place.
            arguments: Gets the number of earlier attempts, gives the arguments after the echo.
            confirm: What to wait for on the same connection.

        Returns:
            The reply, status decoded to str, the rest as bytes and integers.

        Raises:
            Unavailable: No attempt was answered.
            Refused: The server refused the script.
            Unconfirmed: It ran, but the wait was in vain.
        """
        return self.call_many([(name, echo, arguments)], confirm)[0]

    def call_many(
        self,
        calls: Sequence[Call],
        confirm: Durability | None = None,
    ) -> list[Reply]:
        """Run several scripts in one round trip; each must be safe to repeat.

        Args:
            calls: Triples of script name, echo and arguments as in :meth:`call`.
            confirm: What to wait for on the same connection.

        Returns:
            One reply a call, in order.

        Raises:
            Unavailable: No attempt was answered.
            Refused: The server refused a script.
        """
        last: Exception | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                self._loaded.clear()  # it may be another server, or the same one after a restart
                time.sleep(BACKOFF_SECONDS[min(attempt, len(BACKOFF_SECONDS)) - 1])
            try:
                with self._masked():
                    return self._once(calls, attempt, confirm)
            except (*_AGAIN, ReplyMismatch) as exc:
                last = exc
            except ResponseError as exc:
                if not str(exc).startswith(_AGAIN_WORDS):
                    raise Refused(calls[0][0], exc) from exc
                last = exc
        raise Unavailable(calls[0][0], ATTEMPTS, last)

    def read(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Run read-only commands in one round trip.

        Args:
            commands: Command tuples, such as ``("HLEN", key)``.

        Raises:
            Unavailable: No attempt was answered.
        """
        return self._read(commands, lambda connection: connection.read_response())

    def ask(self, *commands: tuple[Any, ...]) -> list[Any]:
        """As :meth:`read`, for commands a server may not have or allow.

        Args:
            commands: Command tuples.

        Returns:
            One reply a command; the error itself where the server refused.

        Raises:
            Unavailable: No attempt was answered.
        """
        return self._read(commands, self._reply)

    def hear(self, channel: str) -> Iterator[bytes | None]:
        """Subscribe to a channel and yield what is published, None at each quiet second.

        The first None says that the subscription stands.

        Args:
            channel: Publish/subscribe channel.

        Raises:
            Unavailable: The connection broke; hints were perhaps missed.
        """
        listener = redis.Redis(connection_pool=self.pool).pubsub()
        try:
            listener.subscribe(channel)
            stands = False
            while True:
                message = listener.get_message(timeout=self.socket_timeout / 2)
                kind = message["type"] if message else ""
                stands = stands or kind == "subscribe"
                if kind == "message":
                    yield message["data"]
                elif stands:
                    yield None
        except (redis.RedisError, OSError, ValueError) as exc:
            raise Unavailable("subscribe", 1, exc) from exc
        finally:
            with contextlib.suppress(Exception):
                listener.close()

    def close(self) -> None:
        """Close every idle connection; the client stays usable."""
        self.pool.disconnect()

    def _read(
        self, commands: Sequence[tuple[Any, ...]], reply: Callable[[AbstractConnection], Any]
    ) -> list[Any]:
        last: Exception | None = None
        for _ in range(ATTEMPTS):
            try:
                with self._masked(), self._connection() as connection:
                    connection.send_packed_command(connection.pack_commands(commands))
                    return [reply(connection) for _ in commands]
            except _AGAIN as exc:
                last = exc
        raise Unavailable(str(commands[0][0]), ATTEMPTS, last)

    def _once(
        self,
        calls: Sequence[Call],
        attempt: int,
        confirm: Durability | None = None,
    ) -> list[Reply]:
        # Of several calls, one that is repeated with its text would run behind the others.
        known = self._loaded if len(calls) > 1 else {calls[0][0]}
        packed = [
            self._command(name, (echo, *make(attempt)), by_hash=name in known)
            for name, echo, make in calls
        ]
        with self._connection() as connection:
            self.calls += len(calls)
            connection.send_packed_command(connection.pack_commands(packed))
            replies = [self._reply(connection) for _ in packed]
            for at, (name, _, _) in enumerate(calls):
                if isinstance(replies[at], NoScriptError):
                    script = ("EVAL", load(name).text, *packed[at][2:])
                    connection.send_packed_command(connection.pack_commands([script]))
                    replies[at] = self._reply(connection)
            checked = [
                self._checked(name, echo, reply)
                for (name, echo, _), reply in zip(calls, replies, strict=True)
            ]
            if confirm is not None:
                self._wait(connection, confirm, checked)
        self._loaded.update(name for name, _, _ in calls)
        return checked

    def _wait(
        self, connection: AbstractConnection, confirm: Durability, replies: list[Reply]
    ) -> None:
        """Wait until what this connection wrote is safe.

        WAIT and WAITAOF speak of the writes of their own connection, in steps shorter than the
        socket's timeout.
        """
        deadline = time.monotonic() + confirm.timeout_seconds
        while True:
            left = max(0.0, min(deadline - time.monotonic(), self.socket_timeout / 2))
            command = ("WAITAOF", 1, 0) if confirm.level == "fsync" else ("WAIT", 1)
            packed = connection.pack_commands([(*command, max(1, int(left * 1000)))])
            connection.send_packed_command(packed)
            reply = self._reply(connection)
            if isinstance(reply, Exception):
                raise Unconfirmed(replies, reply)
            if (reply[0] if isinstance(reply, list) else reply) >= 1:
                return
            if time.monotonic() >= deadline:
                raise Unconfirmed(replies, f"not within {confirm.timeout_seconds:g} s")

    def _command(self, name: str, arguments: Sequence[Any], *, by_hash: bool) -> tuple[Any, ...]:
        script = load(name)
        way = ("EVALSHA", script.sha) if by_hash else ("EVAL", script.text)
        return (*way, len(self._keys), *self._keys, *arguments)

    @staticmethod
    def _reply(connection: AbstractConnection) -> Any:
        try:
            return connection.read_response()
        except ResponseError as exc:
            return exc

    def _checked(self, name: str, echo: str, reply: Any) -> Reply:
        if isinstance(reply, Exception):
            raise reply
        if not isinstance(reply, list) or len(reply) < SHORTEST_REPLY:
            raise ReplyMismatch(name, echo, reply)
        if reply[1] != echo.encode():
            raise ReplyMismatch(name, echo, reply[1])
        reply[0] = reply[0].decode()
        if isinstance(reply[2], int) and reply[2]:
            self._clock = (reply[2], time.monotonic())
        return reply

    @contextlib.contextmanager
    def _connection(self) -> Iterator[AbstractConnection]:
        get: Any = self.pool.get_connection
        connection = get("EVALSHA") if _GET_TAKES_NAME else get()
        try:
            yield connection
        except BaseException:
            connection.disconnect()
            raise
        finally:
            self.pool.release(connection)

    @contextlib.contextmanager
    def _masked(self) -> Iterator[None]:
        if not self.mask_signals or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _MASKED)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
