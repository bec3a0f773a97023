"""Sentinels for tests: one primary, one replica and three sentinels, all real, on loopback.

Invariant: every server ends with the context; a failover begins when the primary is killed.
"""

import contextlib
from typing import Self

import redis
from redis.sentinel import Sentinel

from tests.servers import Kind, Server, find_binary, free_port
from tests.waiting import eventually

MASTER = "mymaster"
DOWN_AFTER_MS = 500

SETTINGS = f"""
sentinel monitor {MASTER} {{host}} {{port}} {{quorum}}
sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}
sentinel failover-timeout {MASTER} 3000
sentinel parallel-syncs {MASTER} 1
"""


class SentinelServer(Server):
    """One sentinel, which watches a primary.

    Args:
        primary: What it watches.
        kind: "valkey" or "redis".
        port: Port it watches it at; that of the server itself by default.
        quorum: How many sentinels must agree.
        settings: More lines of its file.
    """

    def __init__(
        self, primary: Server, kind: Kind = "valkey", *, port: int = 0, quorum: int = 2,
        settings: str = "",
    ) -> None:  # fmt: skip
        super().__init__(kind)
        self._settings = (
            SETTINGS.format(host=primary.host, port=port or primary.port, quorum=quorum) + settings
        )

    def start(self) -> None:
        """Write its file, which it changes itself, then start it."""
        self.port = self.port or free_port()
        (self.folder / "sentinel.conf").write_text(self._settings)
        super().start()

    def command(self, binary: str) -> list[str]:
        """As a server's, with a file of settings instead of most arguments."""
        path = str(self.folder / "sentinel.conf")
        return [binary, path, "--sentinel", "--bind", self.host, "--port", str(self.port),
                "--dir", str(self.folder)]  # fmt: skip


class Watched:
    """A primary with a replica, watched by three sentinels; a context manager.

    Attributes:
        primary: The server that was primary first.
        replica: The server that follows it and takes over.
        addresses: Host and port of each sentinel.
    """

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        assert find_binary("valkey")
        self.primary = self._stack.enter_context(
            Server("valkey", "--repl-diskless-sync-delay", "0")
        )
        replicaof = ("--replicaof", f"{self.primary.host} {self.primary.port}")
        self.replica = self._stack.enter_context(Server("valkey", *replicaof))
        with self.replica.client() as client:
            eventually(lambda: client.info("replication")["master_link_status"] == "up", 20, "link")
        sentinels = [SentinelServer(self.primary) for _ in range(3)]
        for sentinel in sentinels:
            self._stack.enter_context(sentinel)
        self.addresses = [(sentinel.host, sentinel.port) for sentinel in sentinels]
        for sentinel in sentinels:
            with sentinel.client() as client:
                eventually(lambda c=client: self._sees_all(c), 20, "sentinels that know each other")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def client(self) -> redis.Redis:
        """A client of the primary, whoever that is."""
        return Sentinel(self.addresses, socket_timeout=1).master_for(MASTER)

    def fail_over(self) -> None:
        """Kill the primary and wait until the replica has its place."""
        self.primary.kill()
        self.wait_over()

    def wait_over(self) -> None:
        """Wait until the replica has taken the place of the primary."""
        with self.replica.client() as client:
            eventually(lambda: self._leads(client), 30, "a new primary")

    @staticmethod
    def _leads(client: redis.Redis) -> bool:
        with contextlib.suppress(redis.ConnectionError):  # a promotion cuts connections
            return client.info("replication")["role"] == "master"
        return False

    @staticmethod
    def _sees_all(client: redis.Redis) -> bool:
        state = client.execute_command("SENTINEL", "MASTER", MASTER)
        if isinstance(state, list):
            state = dict(zip(state[::2], state[1::2], strict=True))
        found = {str(k if isinstance(k, str) else k.decode()): v for k, v in state.items()}
        return int(found["num-other-sentinels"]) == 2 and int(found["num-slaves"]) == 1
