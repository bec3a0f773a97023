"""What is said to the server, and what its answers mean, whoever carries them.

Invariants: nothing here waits or touches a socket, so that blocking and asyncio callers follow the
same rules; a reply that does not echo its call is never returned. Calls are repeated here and not
by redis-py, because a script must know that it runs again (docs/design/0003-idempotent-calls.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    NoScriptError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from vtrr_queue.errors import Refused, ReplyMismatch
from vtrr_queue.scripting import load
from vtrr_queue.wire import packed, packed_call

if TYPE_CHECKING:
    from vtrr_queue.keys import QueueKeys
    from vtrr_queue.model import Durability

ATTEMPTS = 3
"""How often a call is sent before :class:`~vtrr_queue.errors.Unavailable` is raised."""

BACKOFF_SECONDS = (0.02, 0.2)
"""Pauses before the second and the third attempt."""

_AGAIN = (
    RedisConnectionError, RedisTimeoutError, BusyLoadingError, ClusterDownError, ReadOnlyError,
    TryAgainError, InvalidResponse, OSError,
)  # fmt: skip
"""MASTERDOWN is a kind of CLUSTERDOWN; redis-py takes these words off the text of its errors."""

_AGAIN_WORDS = ("UNBLOCKED", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN")
"""Refusals for which a release of redis-py has no class: for all but the first until 5.2."""

_UNKNOWN = "unknown command"

_DEMOTED = ("UNBLOCKED", "WAIT cannot be used with replica", "WAITAOF cannot be used with replica")

FAILURES = (*_AGAIN, ReplyMismatch, ResponseError)
"""What an attempt may end with; :meth:`Talk.judge` tells which of them end the call."""

WAIT_STEP_SECONDS = 1.0
"""Longest single WAIT, so that a server that died meanwhile is noticed."""

WAIT_SLACK_SECONDS = 0.5
"""How late a WAIT may end: the server looks for those that are over ten times a second."""

SHORTEST_REPLY = 3
"""Status, echo and server time stand in every reply."""

Reply = list[Any]
Command = tuple[Any, ...]
Call = tuple[str, str, Callable[[int], Sequence[Any]]]
"""Script name, echo, and what gives the arguments after the echo for an attempt's number."""

T = TypeVar("T")


class Send(NamedTuple):
    """One exchange on a connection: send commands, packed, and read so many replies.

    A refusal of the server is a reply. ``seconds`` bounds the first reply when it may take longer
    than the others.
    """

    data: bytes
    replies: int
    seconds: float | None = None


class Calls(NamedTuple):
    """A request of :data:`Steps`: scripts in one round trip, as ``ScriptClient.call_many``."""

    calls: Sequence[Call]
    confirm: Durability | None = None


class Reads(NamedTuple):
    """A request of :data:`Steps`: commands that read, as ``ScriptClient.read`` or ``ask``."""

    commands: Sequence[Command]
    takes_refusals: bool = False


class Work(NamedTuple):
    """A request of :data:`Steps`: something that may take its time, off the event loop if any."""

    function: Callable[[], Any]


Steps = Generator[Calls | Reads | Work, Any, T]
"""A piece of work as requests and their answers; what carries it out may block or be awaited."""

Exchange = Generator[Send, list[Any], T]
"""One attempt of a request, on one connection."""


def calling(
    name: str, echo: str, arguments: Callable[[int], Sequence[Any]],
    confirm: Durability | None = None,
) -> Steps[Reply]:  # fmt: skip
    """One script as steps; see :meth:`vtrr_queue.client.ScriptClient.call`."""
    (reply,) = yield Calls([(name, echo, arguments)], confirm)
    return list(reply)


def wait_command(confirm: Durability, left: float) -> Command:
    """The command that waits for what was written on the same connection."""
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


class Talk:
    """What one process has learned of its server, and how it speaks to it.

    Args:
        keys: Names of the queue's keys.
        socket_timeout: Bound on connecting and on one reply, s.

    Attributes:
        calls: Script calls made so far in this process.
        clock_key: Key whose value scripts take for the time, in a simulation or a test.
    """

    def __init__(self, keys: QueueKeys, socket_timeout: float) -> None:
        self.socket_timeout = socket_timeout
        self.calls = 0
        self.clock_key = ""
        self._prefix, self._declared = keys.prefix, keys.declared
        self._loaded: set[str] = set()
        self._options, self._read_only = "", "_RO"
        self._clock = (0, 0.0)

    def server_now_ms(self) -> int:
        """Server clock now, from the last reply that told it; 0 when none did."""
        server_ms, at = self._clock
        return int(server_ms + (time.monotonic() - at) * 1000) if server_ms else 0

    def interrupted(self) -> bool:
        """Whether a wait must end because the process was told to."""
        return False

    def pause(self, attempt: int) -> float:
        """How long to wait before an attempt that is not the first, s."""
        self._loaded.clear()  # it may be another server, or the same one after a restart
        return BACKOFF_SECONDS[min(attempt, len(BACKOFF_SECONDS)) - 1]

    @staticmethod
    def judge(name: str, failure: Exception) -> Exception:
        """A failed attempt's failure, if another one makes sense.

        Args:
            name: What was tried.
            failure: One of :data:`FAILURES`.

        Raises:
            Refused: Trying again would not help.
        """
        is_refusal = isinstance(failure, ResponseError) and not isinstance(failure, _AGAIN)
        if isinstance(failure, AuthenticationError):  # redis-py has it under ConnectionError
            raise Refused(name, failure) from failure
        if is_refusal and not str(failure).startswith(_AGAIN_WORDS):
            raise Refused(name, failure) from failure
        return failure

    def reading(self, commands: Sequence[Command], *, takes_refusals: bool) -> Exchange[list[Any]]:
        """Read-only commands; the server's refusal of one is an answer, or ends the attempt."""
        replies = yield Send(packed(*commands), len(commands))
        if not takes_refusals:
            for reply in replies:
                for part in (reply, *(reply if isinstance(reply, list) else ())):
                    if isinstance(part, ResponseError):  # perhaps of one in a transaction
                        raise part
        return replies

    def exchange(
        self, calls: Sequence[Call], attempt: int, confirm: Durability | None = None
    ) -> Exchange[list[Reply]]:
        """One attempt at several scripts, and the wait for what they wrote.

        Args:
            calls: The scripts.
            attempt: Number of earlier attempts.
            confirm: What to wait for.

        Raises:
            Unconfirmed: They ran, but the wait was in vain.
        """
        # What is repeated with its text would run behind the calls and the wait sent with it.
        known = self._loaded if len(calls) > 1 or confirm else {calls[0][0]}
        arguments = [(echo, *make(attempt)) for _, echo, make in calls]
        said = [
            self._packed(name, given, by_hash=name in known)
            for (name, _, _), given in zip(calls, arguments, strict=True)
        ]
        if confirm:
            said.append(packed(wait_command(confirm, confirm.timeout_seconds)))
        self.calls += len(calls)
        replies = yield Send(b"".join(said), len(calls))
        for at, (name, _, _) in enumerate(calls):
            while self._must_repeat(replies[at]):
                if confirm:
                    raise RedisConnectionError(f"{name} must be sent again before the wait")
                (replies[at],) = yield Send(self._packed(name, arguments[at]), 1)
        checked = [
            self._checked(name, echo, reply)
            for (name, echo, _), reply in zip(calls, replies, strict=True)
        ]
        if confirm:
            yield from self._waiting(confirm, checked)
        self._loaded.update(name for name, _, _ in calls)
        return checked

    def _waiting(self, confirm: Durability, replies: list[Reply]) -> Exchange[None]:
        """Read the answer to the wait that was sent with the scripts, and wait on.

        WAIT and WAITAOF speak of the writes of their own connection.
        """
        deadline = time.monotonic() + confirm.timeout_seconds
        bound = WAIT_STEP_SECONDS + WAIT_SLACK_SECONDS + self.socket_timeout
        command = b""
        while True:
            (reply,) = yield Send(command, 1, bound)
            if isinstance(reply, Exception):
                self._wait_refused(reply, replies)
            if (reply[0] if isinstance(reply, list) else reply) >= 1:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unconfirmed(replies, f"not within {confirm.timeout_seconds:g} s")
            if self.interrupted():
                raise Unconfirmed(replies, "interrupted by a signal")
            command = packed(wait_command(confirm, left))

    @staticmethod
    def _wait_refused(refusal: Exception, replies: list[Reply]) -> NoReturn:
        if str(refusal).startswith(_DEMOTED):  # then the items are not stored any more
            raise RedisConnectionError(refusal)
        raise Unconfirmed(replies, refusal)

    def _packed(self, name: str, arguments: Sequence[Any], *, by_hash: bool = False) -> bytes:
        script = load(name, self._options, self._prefix, clock_key=self.clock_key)
        way, sent = ("EVALSHA", script.sha) if by_hash else ("EVAL", script.text)
        if script.header.read_only:
            way += self._read_only
        return packed_call(way, sent, self._declared, arguments)

    def _must_repeat(self, reply: Any) -> bool:
        """Whether a script did not run: unknown to the server, or without the parts it needs."""
        is_whole = isinstance(reply, list) and len(reply) >= SHORTEST_REPLY
        if is_whole and reply[0] == b"schema" and reply[2].startswith(b"options "):
            self._loaded.clear()
            self._options = "".join(sorted({*self._options, *reply[2].decode()[8:]}))
            return True
        if self._read_only and isinstance(reply, ResponseError) and _UNKNOWN in str(reply):
            self._read_only = ""  # Redis 6.2
            return True
        return isinstance(reply, NoScriptError)

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
