"""The library's private connections to Redis for coroutines: one client an event loop.

Invariants: the event loop is never blocked; a connection on which anything went wrong, a
cancellation included, is closed; what was begun goes on when its caller is cancelled, because a
script that was sent may have run. What is said is in :mod:`vtrr_queue.talk`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from redis.asyncio.connection import ConnectionPool
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from vtrr_queue.async_pool import MOST_CONNECTIONS, async_pools
from vtrr_queue.errors import Unavailable
from vtrr_queue.talk import ATTEMPTS, FAILURES, Calls, Reads, Work

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine

    from vtrr_queue.pool import Place
    from vtrr_queue.talk import Exchange, Send, Steps, T, Talk

_GET_TAKES_NAME = any(
    name == "command_name" and each.default is inspect.Parameter.empty
    for name, each in inspect.signature(ConnectionPool.get_connection).parameters.items()
)


class AsyncClient:
    """Carries out steps in one event loop; made and used inside of it.

    Args:
        talk: What the process knows of the server.
        place: Where the queue's keys are; the settings of its pool are cloned.
    """

    def __init__(self, talk: Talk, place: Place) -> None:
        self._talk, self._place = talk, place
        self._cloned = place.pool
        self._pools = async_pools(place.pool, talk.socket_timeout)
        self._slots = asyncio.Semaphore(MOST_CONNECTIONS)
        self._running: set[asyncio.Task[Any]] = set()
        self._is_known = False
        self._until_the_loop_ends = self._close_at_the_end()

    async def run(self, steps: Steps[T]) -> T:
        """Carry out steps one after the other, to the end even if the caller is cancelled.

        Args:
            steps: What to do; a failure of a step is raised inside of it.

        Returns:
            What the steps return.
        """
        return await self.finish(self.carry_out(steps))

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something that goes on when the caller is cancelled.

        Args:
            work: What to await.
        """
        if not self._is_known:
            self._is_known = True
            await anext(self._until_the_loop_ends)  # from then on the loop knows of it
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for what was begun, then close every connection."""
        if self._running:
            await asyncio.wait(self._running)
        await self._until_the_loop_ends.aclose()
        await self._disconnect()

    async def _close_at_the_end(self) -> AsyncGenerator[None, None]:
        """Closes the connections when the loop shuts down its asynchronous generators."""
        try:
            while True:
                yield
        finally:
            await self._disconnect()

    async def _disconnect(self) -> None:
        for pool in self._pools:
            await pool.disconnect()

    async def carry_out(self, steps: Steps[T]) -> T:
        """As :meth:`run`, ended by a cancellation of the caller."""
        try:
            request = next(steps)
            while True:
                try:
                    answer = await self._answer(request)
                except BaseException as exc:  # noqa: BLE001 - it is theirs to handle
                    request = steps.throw(exc)
                else:
                    request = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _answer(self, request: Calls | Reads | Work) -> Any:
        if isinstance(request, Work):
            return await asyncio.to_thread(request.function)
        if isinstance(request, Calls):
            calls, confirm = request
            say: Any = partial(self._talk.exchange, calls, confirm=confirm)
            return await self._repeated(calls[0][0], say)
        commands, tolerant = request
        read = partial(self._talk.reading, commands, takes_refusals=tolerant)
        return await self._repeated(str(commands[0][0]), lambda _: read())

    async def _repeated(self, name: str, say: Callable[[int], Exchange[list[Any]]]) -> list[Any]:
        """Try until the server answers or refuses, as the blocking client does.

        Args:
            name: What is tried, for the error.
            say: Gets the number of earlier attempts.
        """
        last: Exception | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(self._talk.pause(attempt))
            try:
                if self._place.is_lost:
                    await asyncio.to_thread(self._place.find)
                return await self._carry(say(attempt))
            except FAILURES as exc:
                last = exc if self._place.failed(exc) else self._talk.judge(name, exc)
        raise Unavailable(name, ATTEMPTS, last)

    async def _carry(self, exchange: Exchange[T]) -> T:
        async with self._connection() as connection:
            try:
                send = next(exchange)
                while True:
                    send = exchange.send(await self._sent(connection, send))
            except StopIteration as end:
                result: T = end.value
                return result

    async def _sent(self, connection: Any, send: Send) -> list[Any]:
        if send.data:
            await connection.send_packed_command([send.data])
        return [await self._reply(connection, send.seconds) for _ in range(send.replies)]

    async def _reply(self, connection: Any, seconds: float | None) -> Any:
        try:
            reply = await connection.read_response(timeout=seconds)
        except ResponseError as exc:
            return exc
        if reply is None and seconds is not None:
            raise RedisTimeoutError("no answer to a wait")
        return reply

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        async with asyncio.timeout(self._talk.socket_timeout):
            await self._slots.acquire()
        try:
            pool = await self._pool()
            get: Any = pool.get_connection
            connection = await (get("EVALSHA") if _GET_TAKES_NAME else get())
            try:
                yield connection
            except BaseException:
                await connection.disconnect(nowait=True)
                raise
            finally:
                if pool is not self._pools[0]:  # the keys have moved meanwhile
                    await connection.disconnect(nowait=True)
                await pool.release(connection)
        finally:
            self._slots.release()

    async def _pool(self) -> ConnectionPool:
        """Connections to where the keys are now; idle ones to where they were are closed."""
        if self._cloned is not self._place.pool:
            retired = self._pools
            self._cloned = self._place.pool
            self._pools = async_pools(self._cloned, self._talk.socket_timeout)
            for pool in retired:
                await pool.disconnect(inuse_connections=False)
        return self._pools[0]


class AsyncClients:
    """One :class:`AsyncClient` for each event loop of the process.

    Args:
        talk: What the process knows of the server.
        place: Where the queue's keys are; the settings of its pool are cloned.
    """

    def __init__(self, talk: Talk, place: Place) -> None:
        self._talk, self._place = talk, place
        self._lock = threading.Lock()
        self._of: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient]
        self._of = weakref.WeakKeyDictionary()

    def here(self) -> AsyncClient:
        """The client of the running event loop.

        Raises:
            RuntimeError: None runs in this thread.
            ArgumentError: The user's client has settings that asyncio lacks.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._of:
                self._sweep()
                self._of[loop] = AsyncClient(self._talk, self._place)
            return self._of[loop]

    async def close(self) -> None:
        """Close the client of the running event loop; the next call makes another."""
        with self._lock:
            client = self._of.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _sweep(self) -> None:
        for loop in [loop for loop in self._of if loop.is_closed()]:
            del self._of[loop]  # its connections hold the loop, which holds them
