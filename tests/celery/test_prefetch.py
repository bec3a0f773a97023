"""Leases taken ahead: many in one round trip while runs are short, none while they are long."""

from signal import SIGTERM

import pytest
import redis
from celery import Celery

from tests.stage import Stage
from tests.waiting import eventually
from tests.watching import Highest
from vtrr_queue import ArgumentError, VTRRQueue

PREFETCH, SLOTS = 4, 2
QUEUES = {"a": {"celery_queue": "q-a", "prefetch": PREFETCH, "lease_seconds": 6}}


@pytest.fixture(scope="module")
def _stage(tmp_path_factory):
    """Servers and the app; workers belong to the tests."""
    with Stage(
        "steps", tmp_path_factory.mktemp("ahead"), dispatch="direct", QUEUES=QUEUES
    ) as stage:
        yield stage


def enqueue(stage, count, gate=None, partition="u"):
    return stage.app.tasks["a"].queue(partition, [{"args": [gate]} for _ in range(count)])


def start(stage, pool="prefork", concurrency=SLOTS):
    """A worker that has seen short runs."""
    worker = stage.start_worker(queues=["q-a"], pool=pool, concurrency=concurrency)
    enqueue(stage, 40, partition="warm")
    stage.wait_runs(40)
    stage.wait_rest("a")
    stage.traces.client.delete("runs")
    return worker


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_short_runs_are_leased_ahead_and_start_in_order(stage, pool):
    """Of one slot: as many as it says and no more, each runs once, first in, first out."""
    start(stage, pool, 1)
    before = stage.script_calls()
    with Highest(lambda: stage.inflight("a")) as leases:
        ids = enqueue(stage, 600)
        runs = stage.wait_runs(600, timeout=60)
        stage.wait_rest("a")
    assert [run["id"] for run in runs] == ids
    assert 1 < leases.value <= 1 + PREFETCH
    assert stage.script_calls() - before < 2 * 600


def test_nothing_is_leased_ahead_before_a_run_was_seen(stage):
    """A worker that has just started knows nothing of its task."""
    stage.start_worker(queues=["q-a"], concurrency=SLOTS)
    enqueue(stage, 20, "long")
    stage.wait_runs(SLOTS)
    assert stage.inflight("a") == SLOTS
    stage.traces.open("long")
    stage.wait_rest("a")


def test_what_waits_behind_a_long_run_is_given_back(stage):
    """Another worker takes it; it has lost neither its place nor a life."""
    first = start(stage, concurrency=1)
    blocked = enqueue(stage, 1, "long") + enqueue(stage, PREFETCH)
    stage.wait_runs(1)
    eventually(lambda: stage.inflight("a") == 1, 5, "the others to be given back")
    stage.start_worker(queues=["q-a"], concurrency=1)
    runs = stage.wait_runs(len(blocked))
    assert [run["id"] for run in runs] == blocked
    assert {run["timeouts"] for run in runs} == {0}
    assert not any(word in first.log() for word in ("WARNING", "ERROR"))
    stage.traces.open("long")
    stage.wait_rest("a")


def test_a_warm_shutdown_keeps_no_item_that_has_not_started(stage):
    """The worker ends its run in its own time; others have what it had in store."""
    first = start(stage, concurrency=1)
    ids = enqueue(stage, 1, "long") + enqueue(stage, PREFETCH)
    stage.wait_runs(1)
    first.signal(SIGTERM)
    stage.start_worker(queues=["q-a"], concurrency=1)
    runs = stage.wait_runs(len(ids))
    assert sorted(run["id"] for run in runs) == sorted(ids)
    stage.traces.open("long")
    stage.wait_rest("a")


def test_a_killed_worker_loses_nothing_of_its_store(stage):
    """SIGKILL in the middle of a drain: what it held comes back when its leases end."""
    first = start(stage)
    ids = enqueue(stage, 1500)
    stage.wait_runs(300)
    first.kill_group()
    stage.start_worker(queues=["q-a"], concurrency=SLOTS)
    stage.wait_rest("a", timeout=60)
    runs = [run["id"] for run in stage.traces.runs()]
    assert set(runs) == set(ids)
    assert len(runs) - len(ids) <= SLOTS * (2 + PREFETCH)  # those that had run and were not acked


@pytest.mark.chaos
@pytest.mark.timeout(300)
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_workers_are_killed_again_and_again(stage, pool):
    """Ten SIGKILLs in a drain of 6,000: all run, and what ran twice was never acked."""
    kills, count = 10, 6000
    ids = [item_id for name in "abcde" for item_id in enqueue(stage, count // 5, partition=name)]
    for number in range(kills):
        worker = stage.start_worker(queues=["q-a"], pool=pool, concurrency=SLOTS)
        stage.wait_runs((number + 1) * count // (kills + 2))
        stage.end_worker(worker)
    stage.start_worker(queues=["q-a"], pool=pool, concurrency=SLOTS)
    stage.wait_rest("a", timeout=120)
    runs = [run["id"] for run in stage.traces.runs()]
    assert set(runs) == set(ids)
    assert len(runs) - count <= kills * SLOTS * (2 + PREFETCH)


@pytest.mark.parametrize("other", [{"charge": "runtime"}, {"dispatch": "trigger"}])
def test_what_it_does_not_go_with(other):
    """What waits in a worker would pay for it, or would need a trigger."""
    app = Celery("ahead", broker="memory://")
    with pytest.raises(ArgumentError, match="prefetch"):
        VTRRQueue(redis.Redis(), app, **{"name": "x", "dispatch": "direct", "prefetch": 1} | other)
