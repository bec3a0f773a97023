"""Private servers start, crash and come back."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
import redis

from tests.servers import Server, wanted_kinds
from tests.waiting import eventually

HERE_AND_GONE = """
import os, signal
from tests.servers import Server
server = Server()
server.start()
print(server.pid, server.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(params=wanted_kinds())
def kind(request):
    return request.param


def test_it_forgets_everything_when_killed(kind):
    with Server(kind) as server:
        server.client().set("a", 1)
        server.kill()
        assert not server.is_running()
        server.start()
        assert server.client().get("a") is None


def test_it_keeps_port_and_data_over_a_restart_with_an_append_only_file(kind):
    with Server(kind, "--appendonly", "yes", "--appendfsync", "always") as server:
        port = server.port
        server.client().set("a", 1)
        server.kill()
        server.start()
        assert server.port == port
        assert server.client().get("a") == b"1"


def test_it_leaves_nothing_behind(kind):
    with Server(kind) as server:
        pid, folder = server.pid, server.folder
        client = server.client(socket_timeout=1)
    assert not is_alive(pid)
    assert not folder.exists()
    with pytest.raises(redis.ConnectionError):
        client.ping()


def test_a_server_that_can_not_start_shows_its_log(kind):
    server = Server(kind, "--no-such-option", "1")
    with pytest.raises(AssertionError, match="did not start") as failure:
        server.start()
    assert "no-such-option" in str(failure.value)
    server.close()


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_it_ends_with_a_test_run_that_is_killed():
    run = subprocess.run(
        [sys.executable, "-c", HERE_AND_GONE], capture_output=True, text=True, check=False
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    pid, folder = run.stdout.split()
    eventually(lambda: not is_alive(int(pid)), what="the server's end")
    shutil.rmtree(folder)


def test_databases_are_apart_and_tests_begin_empty(server, redis_client, redis_url):
    assert redis_client.dbsize() == 0
    redis_client.set("a", 1)
    assert server.client(db=1).get("a") is None
    assert redis_url == server.url()
