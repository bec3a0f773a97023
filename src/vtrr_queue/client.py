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

from vtrr_queue.errors import Refused, ReplyMismatch, Unavailable
from vtrr_queue.pool import private_pool
from vtrr_queue.scripting import load, load_with_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from redis.connection import AbstractConnection

    from vtrr_queue.keys import QueueKeys
    from vtrr_queue.model import Durability

ATTEMPTS = 3
"""How often a call is sent before :class:`~vtrr_queue.errors.Unavailable` is raised."""

BACKOFF_SECONDS = (0.02, 0.2)
"""Pauses before the second and the third attempt."""

_AGAIN = (RedisConnectionError, RedisTimeoutError, BusyLoadingError, ReadOnlyError, OSError)
_AGAIN_WORDS = ("MASTERDOWN", "CLUSTERDOWN", "LOADING", "TRYAGAIN", "UNBLOCKED")
_DEMOTED = ("UNBLOCKED", "WAIT cannot be used with replica", "WAITAOF cannot be used with replica")
_MASKED = {signal.SIGTERM} | ({signal.SIGUSR1} if hasattr(signal, "SIGUSR1") else set())

WAIT_STEP_SECONDS = 1.0
"""Longest single WAIT, so that a server that died meanwhile is noticed."""

WAIT_SLACK_SECONDS = 0.5
"""How late a WAIT may end: the server looks for those that are over ten times a second."""

SHORTEST_REPLY = 3
"""Status, echo and server time stand in every reply."""

Reply = list[Any]
Call = tuple[str, str, "Callable[[int], Sequence[Any]]"]
"""Script name, echo, and what gives the arguments after the echo for an attempt's number."""


_GET_TAKES_NAME = (
    inspect.signature(redis.ConnectionPool.get_connection).parameters.get("command_name")
    is not None
    and inspect.signature(redis.ConnectionPool.get_connection).parameters["command_name"].default
    is inspect.Parameter.empty
)


def _wait_command(confirm: Durability, left: float) -> tuple[Any, ...]:
    command = ("WAITAOF", 1, 0) if confirm.level == "fsync" else ("WAIT", 1)
    return (*command, max(1, int(min(left, WAIT_STEP_SECONDS) * 1000)))


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
        keys: Names of the queue's keys.
        socket_timeout: Bound on connecting and on one reply, s.

    Attributes:
        mask_signals: Hold back SIGTERM and SIGUSR1 during a call; set in pool children, where
            Celery's soft limit would otherwise break a read in the middle.
        calls: Script calls made so far in this process.
        clock_key: Key whose value scripts take for the time, in a simulation.
    """

    def __init__(self, client: object, keys: QueueKeys, socket_timeout: float) -> None:
        self.pool = private_pool(client, socket_timeout)
        self.socket_timeout = socket_timeout
        self.mask_signals = False
        self.calls = 0
        self._prefix, self._where = keys.prefix, keys["schema"]
        self._loaded: set[str] = set()
        self._options = ""
        self.clock_key = ""
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
            confirm: What to wait for on the same connection, in the same round trip.

        Returns:
            One reply a call, in order.

        Raises:
            Unavailable: No attempt was answered.
            Refused: The server refused a script.
        """
        return self._repeated(calls[0][0], lambda attempt: self._once(calls, attempt, confirm))

    def read(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Run read-only commands in one round trip.

        Args:
            commands: Command tuples, such as ``("HLEN", key)``.

        Returns:
            One reply a command.

        Raises:
            Unavailable: No attempt was answered.
            Refused: The server refused a command.
        """
        return self._read(commands, self._answer)

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
        def once(_attempt: int) -> list[Any]:
            with self._connection() as connection:
                connection.send_packed_command(connection.pack_commands(commands))
                return [reply(connection) for _ in commands]

        return self._repeated(str(commands[0][0]), once)

    def _repeated(self, name: str, once: Callable[[int], list[Any]]) -> list[Any]:
        """Try until the server answers or refuses.

        Args:
            name: What is tried, for the error.
            once: Gets the number of earlier attempts.
        """
        last: Exception | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                self._loaded.clear()  # it may be another server, or the same one after a restart
                time.sleep(BACKOFF_SECONDS[min(attempt, len(BACKOFF_SECONDS)) - 1])
            try:
                with self._masked():
                    return once(attempt)
            except (*_AGAIN, ReplyMismatch) as exc:
                last = exc
            except ResponseError as exc:
                if not str(exc).startswith(_AGAIN_WORDS):
                    raise Refused(name, exc) from exc
                last = exc
        raise Unavailable(name, ATTEMPTS, last)

    def _once(
        self,
        calls: Sequence[Call],
        attempt: int,
        confirm: Durability | None = None,
    ) -> list[Reply]:
        # What is repeated with its text would run behind the calls and the wait sent with it.
        known = self._loaded if len(calls) > 1 or confirm else {calls[0][0]}
        arguments = [(echo, *make(attempt)) for _, echo, make in calls]
        packed = [
            self._command(name, given, by_hash=name in known)
            for (name, _, _), given in zip(calls, arguments, strict=True)
        ]
        wait = [_wait_command(confirm, confirm.timeout_seconds)] if confirm else []
        with self._connection() as connection:
            self.calls += len(calls)
            connection.send_packed_command(connection.pack_commands([*packed, *wait]))
            replies = [self._reply(connection) for _ in packed]
            for at, (name, _, _) in enumerate(calls):
                while self._must_repeat(replies[at]):
                    if confirm:
                        raise RedisConnectionError(f"{name} must be sent again before the wait")
                    again = self._command(name, arguments[at])
                    connection.send_packed_command(connection.pack_commands([again]))
                    replies[at] = self._reply(connection)
            checked = [
                self._checked(name, echo, reply)
                for (name, echo, _), reply in zip(calls, replies, strict=True)
            ]
            if confirm:
                self._wait(connection, confirm, checked)
        self._loaded.update(name for name, _, _ in calls)
        return checked

    def _wait(
        self, connection: AbstractConnection, confirm: Durability, replies: list[Reply]
    ) -> None:
        """Read the answer to the wait that was sent with the scripts, and wait on.

        WAIT and WAITAOF speak of the writes of their own connection.
        """
        deadline = time.monotonic() + confirm.timeout_seconds
        while True:
            if not connection.can_read(
                WAIT_STEP_SECONDS + WAIT_SLACK_SECONDS + self.socket_timeout
            ):
                raise RedisTimeoutError("no answer to a wait")
            reply = self._reply(connection)
            if isinstance(reply, Exception):
                if str(reply).startswith(_DEMOTED):  # then the items are not stored any more
                    raise RedisConnectionError(reply)
                raise Unconfirmed(replies, reply)
            if (reply[0] if isinstance(reply, list) else reply) >= 1:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unconfirmed(replies, f"not within {confirm.timeout_seconds:g} s")
            if self.mask_signals and signal.sigpending() & _MASKED:
                raise Unconfirmed(replies, "interrupted by a signal")
            again = [_wait_command(confirm, left)]
            connection.send_packed_command(connection.pack_commands(again))

    def _command(
        self, name: str, arguments: Sequence[Any], *, by_hash: bool = False
    ) -> tuple[Any, ...]:
        script = load(name, self._options, self._prefix)
        if self.clock_key:
            script = load_with_clock(name, self._options, self._prefix, self.clock_key)
        way = ("EVALSHA", script.sha) if by_hash else ("EVAL", script.text)
        return (*way, 1, self._where, *arguments)

    def _must_repeat(self, reply: Any) -> bool:
        """Whether a script did not run: unknown to the server, or without the parts it needs."""
        is_whole = isinstance(reply, list) and len(reply) >= SHORTEST_REPLY
        if is_whole and reply[0] == b"schema" and reply[2].startswith(b"options "):
            self._loaded.clear()
            self._options = "".join(sorted({*self._options, *reply[2].decode()[8:]}))
            return True
        return isinstance(reply, NoScriptError)

    @staticmethod
    def _reply(connection: AbstractConnection) -> Any:
        try:
            return connection.read_response()
        except ResponseError as exc:
            return exc

    @staticmethod
    def _answer(connection: AbstractConnection) -> Any:
        reply = connection.read_response()
        for part in reply if isinstance(reply, list) else ():
            if isinstance(part, ResponseError):  # of one command in a transaction
                raise part
        return reply

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
