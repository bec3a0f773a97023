"""A TCP proxy in front of a Redis server that loses, delays and refuses on request.

Invariants: a reply is dropped or stalled only after the server has run its command; commands
and replies are paired in order on each connection; faults can be changed while clients are
connected.
"""

import select
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal, Self

from tests.resp import command_name, frame_end, is_out_of_band

Mode = Literal["pass", "black hole", "refuse"]

_TICK_SECONDS = 0.05
_CHUNK = 1 << 16
_SUBSCRIBING = {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR"}


@dataclass
class _Fault:
    """Hits the reply of every n-th of some commands."""

    every: int
    commands: tuple[str, ...]
    stall_seconds: float = 0.0
    drop: bool = False
    seen: int = 0

    def hits(self, command: str) -> bool:
        if command not in self.commands:
            return False
        self.seen += 1
        return self.seen % self.every == 0


class Proxy:
    """Forwards to a server; a context manager.

    Attributes:
        seen: Counter command -> how many were forwarded to the server.
        dropped: Replies lost so far.
        stalled: Replies delayed so far.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.upstream = upstream
        self.host = "127.0.0.1"
        self.port = 0
        self.seen: Counter[str] = Counter()
        self.dropped = 0
        self.stalled = 0
        self.mode: Mode = "pass"
        self.stopping = threading.Event()
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join(timeout=5)

    def url(self, db: int = 0) -> str:
        """Return the redis:// address of a database behind the proxy."""
        return f"redis://{self.host}:{self.port}/{db}"

    def drop_replies(self, every: int = 1, commands: tuple[str, ...] = ("EVALSHA",)) -> None:
        """Swallow the reply of every n-th of these commands and close that connection."""
        self._add(_Fault(every, commands, drop=True))

    def stall_replies(
        self, seconds: float, every: int = 1, commands: tuple[str, ...] = ("EVALSHA",)
    ) -> None:
        """Deliver the reply of every n-th of these commands so many seconds late."""
        self._add(_Fault(every, commands, stall_seconds=seconds))

    def black_hole(self) -> None:
        """Accept connections and never answer, nor on those that exist."""
        self.mode = "black hole"

    def refuse(self) -> None:
        """Close every connection and refuse new ones."""
        self.mode = "refuse"
        self._join_all()

    def heal(self) -> None:
        """Forget every fault and forward again; what a black hole held back goes on."""
        with self._lock:
            self._faults = []
        refused = self.mode == "refuse"
        self.mode = "pass"
        if refused:
            self._listen()

    def note_request(self, command: str) -> None:
        """Count a command on its way to the server."""
        with self._lock:
            self.seen[command] += 1

    def let_reply_pass(self, command: str) -> bool:
        """Hold a reply back as the faults say; False when it is to be lost."""
        with self._lock:
            hit = [fault for fault in self._faults if fault.hits(command)]
            drop = any(fault.drop for fault in hit)
            stall_seconds = sum(fault.stall_seconds for fault in hit)
            self.dropped += drop
            self.stalled += stall_seconds > 0
        if stall_seconds:
            self.stopping.wait(stall_seconds)
        return not drop

    def _add(self, fault: _Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def _listen(self) -> None:
        self._listener = socket.create_server((self.host, self.port))
        self._listener.settimeout(_TICK_SECONDS)
        self.port = self._listener.getsockname()[1]
        self._run(self._accept, self._listener)

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads = [known for known in self._threads if known.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _join_all(self) -> None:
        for thread in list(self._threads):
            thread.join(timeout=5)

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while self.mode != "refuse" and not self.stopping.is_set():
                try:
                    client, _ = listener.accept()
                except TimeoutError:
                    continue
                self._run(_Link(self, client).run)


@dataclass
class _Link:
    """One client's connection and its connection to the server."""

    proxy: Proxy
    client: socket.socket
    requests: bytearray = field(default_factory=bytearray)
    replies: bytearray = field(default_factory=bytearray)
    unanswered: deque[str] = field(default_factory=deque)
    subscribed: bool = False

    def run(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(self.client)
            if not self._wait_flowing():
                return
            try:
                server = stack.enter_context(socket.create_connection(self.proxy.upstream))
                while self._wait_flowing() and self._step(server):
                    pass
            except OSError:
                pass  # either side is gone: so is the link

    def _wait_flowing(self) -> bool:
        """Wait out a black hole; False when the link must close."""
        while self.proxy.mode == "black hole" and not self.proxy.stopping.is_set():
            self.proxy.stopping.wait(_TICK_SECONDS)
        return self.proxy.mode == "pass" and not self.proxy.stopping.is_set()

    def _step(self, server: socket.socket) -> bool:
        """Forward what came from one side or both; False when one closed or a reply was lost."""
        readable, _, _ = select.select([self.client, server], [], [], _TICK_SECONDS)
        if self.proxy.mode != "pass":
            return True
        if self.client in readable and not self._forward_requests(server):
            return False
        return server not in readable or self._forward_replies(server)

    def _forward_requests(self, server: socket.socket) -> bool:
        data = self.client.recv(_CHUNK)
        self.requests += data
        while (end := frame_end(self.requests)) is not None:
            command = command_name(bytes(self.requests[:end]))
            del self.requests[:end]
            self.proxy.note_request(command)
            self.unanswered.append(command)
            self.subscribed |= command in _SUBSCRIBING
        server.sendall(data)
        return bool(data)

    def _forward_replies(self, server: socket.socket) -> bool:
        data = server.recv(_CHUNK)
        if self.subscribed:  # messages answer no command: nothing can be paired any more
            self.client.sendall(self.replies + data)
            self.replies.clear()
            return bool(data)
        self.replies += data
        while (end := frame_end(self.replies)) is not None:
            reply = bytes(self.replies[:end])
            del self.replies[:end]
            if not is_out_of_band(reply) and not self.proxy.let_reply_pass(
                self.unanswered.popleft()
            ):
                return False
            self.client.sendall(reply)
        return bool(data)
