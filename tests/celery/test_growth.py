"""A worker that has done much is as large as one that has done a little."""

import psutil
import pytest

from tests.stage import Stage

SETS = [
    pytest.param(4_000, 100, id="short", marks=[pytest.mark.slow, pytest.mark.timeout(180)]),
    pytest.param(50_000, 2_000, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(900)]),
]

THREADS = 3
"""Threads of a worker's main process that may ask at the same time without having done so yet."""


def resident(worker):
    """Bytes of the worker's main process and of its children, which share some."""
    pids = [worker.pid, *sorted(worker.children())]
    return [psutil.Process(pid).memory_info().rss for pid in pids]


def connections(stage):
    """Connections of the library that the state server sees."""
    return sum(client["name"] == "ours" for client in stage.redis.client_list())


def drain(stage, deed, count):
    """Run so many items and wait until they are gone."""
    for at in range(0, count, 5_000):
        calls = [{"args": [deed]} for _ in range(min(5_000, count - at))]
        stage.app.act.queue(f"p{at}", calls)
    stage.wait_rest("growing", 600)


@pytest.mark.parametrize(("noops", "limits"), SETS)
@pytest.mark.parametrize("pool", ["prefork"])
def test_a_worker_does_not_grow(tmp_path, pool, noops, limits):
    """By less than a tenth of its memory, and by no connection for each limit."""
    with Stage("growing", tmp_path, dispatch="direct") as stage:
        worker = stage.start_worker(queues=["growing"], pool=pool, concurrency=4)
        drain(stage, "nothing", 4_000)  # what is loaded and cached on first use
        drain(stage, "limit", 40)
        before, connected = resident(worker), connections(stage)
        drain(stage, "nothing", noops)
        drain(stage, "limit", limits)
        after = resident(worker)
        seen = [f"{a / 1e6:.1f} -> {b / 1e6:.1f} MB" for a, b in zip(before, after, strict=True)]
        print(f"resident after {noops} no-op items and {limits} soft limits: {seen}")
        assert all(b < 1.1 * a for a, b in zip(before, after, strict=True)), seen
        assert connections(stage) <= connected + THREADS
        assert int(stage.redis.get("counter:limits")) > 0.95 * (limits + 40)
        stage.redis.delete("counter:limits", "counter:mine")
