"""RabbitMQ for tests: Debian's rabbitmq-server as a process of its own, on loopback.

Invariants: it has its own ports, folder, cookie and port mapper; it runs as whoever runs the test;
a restarted one keeps its ports and folder; everything ends with the test run.
"""

import atexit
import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import kombu

from tests.processes import spawn
from tests.servers import free_port
from tests.waiting import eventually

_READY_SECONDS = 60.0
_STOP_SECONDS = 20.0
# No busy waiting: several Erlang machines would otherwise keep the processors from the workers.
_ERL = "+S 2 +sbwt none +sbwtdcpu none +sbwtdio none"


def find_program() -> str | None:
    """Return the start script of Debian's package; the one in PATH asks for the user rabbitmq."""
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return str(found[-1]) if found and shutil.which("epmd") else None


class RabbitMQ:
    """A private broker process; a context manager.

    Args:
        **settings: What the application `rabbit` is told, such as `consumer_timeout=3000`.
    """

    def __init__(self, **settings: int) -> None:
        self._settings = settings
        self.folder = Path(tempfile.mkdtemp(prefix="vtrr-rabbitmq-"))
        self.port, self._mapper_port, self._node_port = (free_port() for _ in range(3))
        self._processes: list[subprocess.Popen[bytes]] = []
        atexit.register(self.close)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self) -> str:
        """Return the amqp:// address of the usual virtual host."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def start(self) -> None:
        """Start and wait until it takes connections."""
        program, mapper = find_program(), shutil.which("epmd")
        assert program, "no RabbitMQ: apt-get install rabbitmq-server"
        assert mapper
        env = {
            **os.environ,
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"vtrr{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_BASE": str(self.folder),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none.conf"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ERL,
            "RUNNING_UNDER_SYSTEMD": "1",  # the script becomes the server, it starts no other
        }
        (self.folder / "rabbitmq.conf").write_text("log.console = false\n")
        told = ", ".join(f"{{{name}, {value}}}" for name, value in self._settings.items())
        (self.folder / "advanced.config").write_text(f"[{{rabbit, [{told}]}}].\n")
        with (self.folder / "console.log").open("ab") as log:
            self._processes = [
                spawn(command, env=env, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT)
                for command in ([mapper], [program])
            ]
        eventually(self._answers, _READY_SECONDS, f"RabbitMQ:\n{self.log()}")

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does."""
        while self._processes:
            process = self._processes.pop()
            process.kill()
            process.wait(_STOP_SECONDS)

    def restart(self) -> None:
        """Kill it and start it again on the same ports and folder."""
        self.kill()
        self.start()

    def close(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def waiting(self, queue: str) -> int:
        """Count the messages of a queue that no worker holds; -1 when there is no such queue."""
        with (
            kombu.Connection(self.url()) as connection,
            connection.channel() as channel,
            contextlib.suppress(*connection.channel_errors),
        ):
            return int(channel.queue_declare(queue, passive=True).message_count)
        return -1

    def log(self) -> str:
        """Return what it has written."""
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.folder.glob("*.log")))

    def _answers(self) -> bool:
        assert self._processes[-1].poll() is None, self.log()
        with contextlib.suppress(OSError), kombu.Connection(self.url()) as connection:
            connection.connect()
            return True
        return False
