"""The library's private connection to Redis, for callers that may block.

Invariants: the user's client is never used to run a command; a connection on which anything went
wrong is closed. What is said on it is in :mod:`vtrr_queue.talk`.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO

import redis
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from vtrr_queue.cluster import place_of
from vtrr_queue.errors import Unavailable
from vtrr_queue.talk import ATTEMPTS, FAILURES, Calls, Reads, Talk, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from redis.connection import AbstractConnection

    from vtrr_queue.keys import QueueKeys
    from vtrr_queue.model import Durability
    from vtrr_queue.talk import Call, Command, Exchange, Reply, Send, Steps, T

BULK_BYTES = 1 << 17
"""Bytes that :meth:`ScriptClient.bulk` takes from the socket at once."""

FRESH_SECONDS = 1.0
"""A connection used so shortly before is used again unseen; others are checked by redis-py, s."""

_MASKED = {signal.SIGTERM} | ({signal.SIGUSR1} if hasattr(signal, "SIGUSR1") else set())


_GET_TAKES_NAME = (
    inspect.signature(redis.ConnectionPool.get_connection).parameters.get("command_name")
    is not None
    and inspect.signature(redis.ConnectionPool.get_connection).parameters["command_name"].default
    is inspect.Parameter.empty
)


class ScriptClient(Talk):
    """Runs scripts over a private pool.

    Args:
        client: The user's ``redis.Redis`` or ``redis.RedisCluster``; only its settings are read.
        keys: Names of the queue's keys.
        socket_timeout: Bound on connecting and on one reply, s.

    Attributes:
        place: Where the queue's keys are.
        mask_signals: Hold back SIGTERM and SIGUSR1 during a call; set in pool children, where
            Celery's soft limit would otherwise break a read in the middle.
    """

    def __init__(self, client: object, keys: QueueKeys, socket_timeout: float) -> None:
        super().__init__(keys, socket_timeout)
        self.place = place_of(client, keys, socket_timeout)
        self.mask_signals = False
        self._kept: list[tuple[redis.ConnectionPool, Any, float]] = []
        self._kept_in = os.getpid()

    @property
    def pool(self) -> redis.ConnectionPool:
        """Connections to the server that has the queue's keys, as far as is known."""
        return self.place.pool

    def run(self, steps: Steps[T]) -> T:
        """Carry out steps one after the other.

        Args:
            steps: What to do; a failure of a step is raised inside of it.

        Returns:
            What the steps return.
        """
        try:
            request = next(steps)
            while True:
                try:
                    answer = self._answer(request)
                except BaseException as exc:  # noqa: BLE001 - it is theirs to handle
                    request = steps.throw(exc)
                else:
                    request = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

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
        return self._read(commands, takes_refusals=False)

    def ask(self, *commands: tuple[Any, ...]) -> list[Any]:
        """As :meth:`read`, for commands a server may not have or allow.

        Args:
            commands: Command tuples.

        Returns:
            One reply a command; the error itself where the server refused.

        Raises:
            Unavailable: No attempt was answered.
        """
        return self._read(commands, takes_refusals=True)

    def bulk(self, commands: bytes, read: Callable[[BinaryIO], T]) -> T:
        """Run many read-only commands whose replies the caller takes from the socket.

        Args:
            commands: Packed, see :mod:`vtrr_queue.bulk`.
            read: Reads all of their replies.

        Returns:
            What ``read`` returns.

        Raises:
            Unavailable: No attempt was answered.
            Refused: The server refused a command.
        """

        def once(_attempt: int) -> list[Any]:
            pool, connection = self._take()
            try:
                connection.send_packed_command([commands])
                socket: Any = vars(connection)["_sock"]
                with socket.makefile("rb", BULK_BYTES) as stream:
                    found = [read(stream)]
            except BaseException:
                self._drop(pool, connection)
                raise
            self._give(pool, connection)
            return found

        result: T = self._repeated("bulk", once)[0]
        return result

    def hear(self, channel: str) -> Iterator[bytes | None]:
        """Subscribe to a channel and yield what is published, None at each quiet second.

        The first None says that the subscription stands.

        Args:
            channel: Publish/subscribe channel.

        Raises:
            Unavailable: The connection broke; hints were perhaps missed.
        """
        listener = None
        try:
            self.place.find()
            listener = redis.Redis(connection_pool=self.pool).pubsub()
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
            self.place.failed(exc)
            raise Unavailable("subscribe", 1, exc) from exc
        finally:
            with contextlib.suppress(Exception):
                if listener is not None:
                    listener.close()

    def close(self) -> None:
        """Close every idle connection; the client stays usable."""
        while self._kept:
            pool, connection, _ = self._kept.pop()
            self._drop(pool, connection)
        self.pool.disconnect()

    def interrupted(self) -> bool:
        """Whether a wait must end because the process was told to."""
        return self.mask_signals and bool(signal.sigpending() & _MASKED)

    def _answer(self, request: Calls | Reads | Work) -> Any:
        if isinstance(request, Calls):
            return self.call_many(request.calls, request.confirm)
        if isinstance(request, Reads):
            return self._read(request.commands, takes_refusals=request.takes_refusals)
        return request.function()

    def _read(self, commands: Sequence[Command], *, takes_refusals: bool) -> list[Any]:
        def once(_attempt: int) -> list[Any]:
            return self._carry(self.reading(commands, takes_refusals=takes_refusals))

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
                time.sleep(self.pause(attempt))
            try:
                with self._masked():
                    self.place.find()
                    return once(attempt)
            except FAILURES as exc:
                last = exc if self.place.failed(exc) else self.judge(name, exc)
        raise Unavailable(name, ATTEMPTS, last)

    def _once(
        self, calls: Sequence[Call], attempt: int, confirm: Durability | None = None
    ) -> list[Reply]:
        return self._carry(self.exchange(calls, attempt, confirm))

    def _carry(self, exchange: Exchange[T]) -> T:
        pool, connection = self._take()
        try:
            send = next(exchange)
            while True:
                send = exchange.send(self._sent(connection, send))
        except StopIteration as end:
            self._give(pool, connection)
            result: T = end.value
            return result
        except BaseException:
            self._drop(pool, connection)
            raise

    def _sent(self, connection: AbstractConnection, send: Send) -> list[Any]:
        if send.data:
            connection.send_packed_command([send.data])
        if send.seconds is not None and not connection.can_read(send.seconds):
            raise RedisTimeoutError("no answer to a wait")
        return [self._reply(connection) for _ in range(send.replies)]

    @staticmethod
    def _reply(connection: AbstractConnection) -> Any:
        try:
            return connection.read_response()
        except ResponseError as exc:
            return exc

    def _take(self) -> tuple[redis.ConnectionPool, Any]:
        """A connection to where the keys are, the one used last if it is fresh enough."""
        if self._kept_in != os.getpid():  # a fork's parent goes on using its own
            self._kept, self._kept_in = [], os.getpid()
        while self._kept:
            pool, connection, used = self._kept.pop()
            if pool is self.pool and time.monotonic() - used < FRESH_SECONDS:
                return pool, connection
            if pool is not self.pool:  # the keys have moved meanwhile, it is of no more use
                connection.disconnect()
            pool.release(connection)
        pool = self.pool
        get: Any = pool.get_connection
        return pool, get("EVALSHA") if _GET_TAKES_NAME else get()

    def _give(self, pool: redis.ConnectionPool, connection: Any) -> None:
        """Keep a connection for the next call, past the pool with its locks and checks."""
        if type(pool) is redis.ConnectionPool:  # one of Sentinel looks who the primary is
            self._kept.append((pool, connection, time.monotonic()))
        else:
            pool.release(connection)

    @staticmethod
    def _drop(pool: redis.ConnectionPool, connection: Any) -> None:
        connection.disconnect()
        pool.release(connection)

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
