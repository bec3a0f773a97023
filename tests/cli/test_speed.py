"""A hundred thousand partitions with work: how long commands take beyond Celery's own start."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from tests.processes import spawn
from tests.servers import Server
from tests.workers import APPS
from vtrr_queue.keys import SCHEMA

pytestmark = [pytest.mark.slow, pytest.mark.alone]

PARTITIONS = 100_000
ROUNDS = 3
LOOKS = 8


@pytest.fixture(scope="module")
def server():
    """A server with that many partitions of the queue `files`."""
    with Server() as server, server.client() as client:
        pipeline = client.pipeline(transaction=False)
        pipeline.set("vtrr:files:schema", SCHEMA)
        for number in range(PARTITIONS):
            name = f"tenant-{number:06d}"
            pipeline.zadd("vtrr:files:queue", {name: 0})
            pipeline.rpush(f"vtrr:files:backlog:{name}", f"{number}")
            pipeline.hset("vtrr:files:task", f"{number}", f"    {len(name)} {name}body")
            if number % 1000 == 999:
                pipeline.execute()
        yield server


@pytest.fixture
def env(server):
    state = server.url().rsplit("/", 1)[0]
    return {**os.environ, "STATE_URL": state, "BROKER_URL": f"{state}/3", "DISPATCH": "direct",
            "PYTHONPATH": str(APPS)}  # fmt: skip


def seconds(server, env, *words):
    """Processor time of the command and, for it, of the server; the least of some runs.

    They take turns, so on a quiet machine that is how long the command takes. On another one the
    clock on the wall would tell what else is going on.
    """
    times, walls = [], []
    process = psutil.Process(server.pid)
    for _ in range(ROUNDS):
        start, before = time.perf_counter(), used(process)
        command = [sys.executable, "-m", *words]
        subprocess.run(command, check=True, capture_output=True, env=env, cwd=APPS)
        times.append(used(process) - before)
        walls.append(time.perf_counter() - start)
    print(f"{' '.join(words)}: {min(times):.2f} s, by the clock {min(walls):.2f} s")
    return min(times)


def used(process):
    """Processor time of a process, and of all children of this one that have ended."""
    mine, its = os.times(), process.cpu_times()
    return mine.children_user + mine.children_system + its.user + its.system


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("words", "most"), [(("status",), 0.2), (("partitions", "--limit", "20"), 0.5)]
)
def test_beyond_the_start_of_celery(server, env, words, most):
    """Without the app; and with it, beyond a command that only loads the same app."""
    start = seconds(server, env, "celery", "--version")
    alone = seconds(
        server, env, "vtrr_queue.cli", "--redis", server.url(), "--name", "files", *words
    )
    loaded = seconds(server, env, "celery", "-A", "steered", "graph", "--help")
    within = seconds(server, env, "celery", "-A", "steered", "vtrr", "--queue", "files", *words)
    assert alone - start < most
    assert within - loaded < most


@pytest.mark.timeout(180)
def test_top_takes_little_of_a_core(server, env):
    """Once a second, after the first look."""
    command = [sys.executable, "-m", "vtrr_queue.cli", "--redis", server.url(), "--name", "files",
               "top", "--json", "--count", str(LOOKS)]  # fmt: skip
    with spawn(command, env=env, stdout=subprocess.PIPE) as process:
        seen = psutil.Process(process.pid)
        process.stdout.readline()
        before = seen.cpu_times()
        for _ in range(LOOKS - 2):
            process.stdout.readline()
        after = seen.cpu_times()
        process.kill()
    used = (after.user + after.system - before.user - before.system) / (LOOKS - 2)
    print(f"top: {used:.1%} of a core")
    assert used < 0.1
