"""A hundred thousand partitions with work: how long commands take beyond Celery's own start."""

import subprocess
import sys
import time

import pytest

from tests.servers import Server
from vtrr_queue.keys import SCHEMA

pytestmark = [pytest.mark.slow, pytest.mark.alone]

PARTITIONS = 100_000
ROUNDS = 5


@pytest.fixture(scope="module")
def address():
    """A server with that many partitions of the queue `big`."""
    with Server() as server, server.client() as client:
        pipeline = client.pipeline(transaction=False)
        pipeline.set("vtrr:big:schema", SCHEMA)
        for number in range(PARTITIONS):
            name = f"tenant-{number:06d}"
            pipeline.zadd("vtrr:big:queue", {name: 0})
            pipeline.rpush(f"vtrr:big:backlog:{name}", f"{number}")
            pipeline.hset("vtrr:big:task", f"{number}", f"   {len(name)} {name}body")
            if number % 1000 == 999:
                pipeline.execute()
        yield server.url()


def seconds(*words):
    """The shortest of some runs: the machine has other things to do as well."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("words", "most"), [(("status",), 0.2), (("partitions", "--limit", "20"), 0.5)]
)
def test_beyond_the_start_of_celery(address, words, most):
    start = seconds("celery", "--version")
    taken = seconds("vtrr_queue.cli", "--redis", address, "--name", "big", *words)
    print(f"{words[0]}: {taken:.2f} s, celery --version {start:.2f} s")
    assert taken - start < most
