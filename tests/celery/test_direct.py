"""Direct dispatch: workers pull items themselves, at once, cheaply, as many as they can run."""

import statistics
import time
from functools import partial
from signal import SIGTERM

import psutil
import pytest

from tests.stage import Stage
from tests.waiting import eventually
from tests.watching import Highest
from tests.workers import Worker

QUEUES = {"a": {"celery_queue": "q-a"}, "b": {"celery_queue": "q-b"}}


@pytest.fixture(scope="module")
def _stage(tmp_path_factory):
    """Servers and the app; most tests share a worker."""
    folder = tmp_path_factory.mktemp("direct")
    with Stage("steps", folder, dispatch="direct", QUEUES=QUEUES) as stage:
        yield stage


def enqueue(stage, name, count, gate=None, **kwargs):
    entries = [{"args": [gate], "kwargs": kwargs} for _ in range(count)]
    return stage.app.tasks[name].queue("u", entries)


@pytest.mark.alone
def test_an_idle_pool_starts_an_item_at_once(stage):
    """From the enqueue call to the function in less than 100 ms, median of 50."""
    stage.start_worker(queues=["q-a"], concurrency=2)
    delays = []
    for number in range(50):
        sent = time.time()
        enqueue(stage, "a", 1)
        delays.append(stage.wait_runs(number + 1)[-1]["at"] - sent)
        stage.wait_rest("a")
    assert statistics.median(delays) < 0.1


def cpu_seconds(worker):
    """CPU time of a worker and its pool."""
    processes = [psutil.Process(pid) for pid in (worker.pid, *worker.children())]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


@pytest.mark.alone
@pytest.mark.slow
def test_an_idle_worker_costs_next_to_nothing(stage):
    """At most 5 scripts a second and 1 % of a core more than a plain Celery worker."""
    seconds = 10
    env = {"BROKER_URL": stage.broker.url()}
    with Worker("plain", queues=["q-c"], env=env, log_path=stage.folder / "plain.log") as plain:
        fair = stage.start_worker(queues=["q-a"], concurrency=2)
        enqueue(stage, "a", 1)
        stage.wait_runs(1)
        stage.wait_rest("a")
        calls, start = stage.script_calls(), time.monotonic()
        used = {worker: cpu_seconds(worker) for worker in (plain, fair)}
        time.sleep(seconds)  # nothing happens, that is the point
        took = time.monotonic() - start
        used = {worker: cpu_seconds(worker) - used[worker] for worker in used}
        assert (stage.script_calls() - calls) / took <= 5
        assert (used[fair] - used[plain]) / took < 0.01


def test_workers_hold_no_more_leases_than_slots(stage):
    """Two workers of two slots each: never more than four leases, and all four are used."""
    workers = [stage.start_worker(ready=False, queues=["q-a"], concurrency=2) for _ in range(2)]
    for worker in workers:
        worker.wait_ready()
    with Highest(lambda: stage.inflight("a")) as leases:
        ids = enqueue(stage, "a", 200, seconds=0.005)
        runs = stage.wait_runs(200)
        stage.wait_rest("a")
    assert leases.value == 4
    assert leases.reads > 50
    assert sorted(run["id"] for run in runs) == sorted(ids)
    assert len({run["pid"] for run in runs}) == 4


def test_a_short_item_is_not_parked_behind_a_long_one(stage):
    """One slot is taken for long; everything else goes through the other one."""
    stage.start_worker(queues=["q-a"], concurrency=2)
    (long_item,) = enqueue(stage, "a", 1, "long")
    (busy,) = stage.wait_runs(1)
    enqueue(stage, "a", 30)
    others = stage.wait_runs(31)[1:]
    assert busy["pid"] not in {run["pid"] for run in others}
    eventually(lambda: len(stage.traces.ends()) == 30, what="the ends of the short ones")
    assert long_item not in stage.traces.ends()
    stage.traces.open("long")
    stage.wait_rest("a")


def test_a_plain_task_takes_a_slot(stage):
    """What plain Celery runs in the same pool is counted: no item is leased for a taken slot."""
    stage.start_worker(queues=["q-a", "q-plain"], concurrency=1)
    stage.app.plain.apply_async((1,), queue="q-plain")
    eventually(lambda: "steps.plain" in stage.workers[0].log().split(" ready.")[1], what="start")
    with Highest(lambda: stage.inflight("a")) as leases:
        sent = time.time()
        enqueue(stage, "a", 1)
        (run,) = stage.wait_runs(1)
    assert run["at"] - sent > 0.5
    assert leases.value <= 1
    stage.wait_rest("a")


def test_pulling_stops_and_starts_by_remote_control(stage):
    """Celery control cancel_consumer, add_consumer; the other queue goes on."""
    worker = stage.start_worker(queues=["q-a", "q-b"], concurrency=2)
    control = stage.app.app.control
    # Celery says that it is ready before it listens: what is sent in between is lost.
    told = partial(control.cancel_consumer, "q-a", reply=True, limit=1, timeout=1)
    eventually(told, 20, "an answer")
    worker.wait_for_log("Canceling queue q-a")
    enqueue(stage, "a", 3)
    enqueue(stage, "b", 3)
    ran = {run["id"] for run in stage.wait_runs(3)}
    stage.wait_rest("b")
    assert ran == set(stage.traces.ends())
    assert stage.redis.hlen("vtrr:a:task") == 3
    assert stage.traces.count() == 3

    control.add_consumer("q-a", reply=True, limit=1, timeout=5)
    worker.wait_for_log("Started consuming from q-a")
    started = time.time()
    assert stage.wait_runs(6)[3]["at"] - started < 1
    stage.wait_rest("a")


def test_a_warm_shutdown_stops_pulling_at_once(stage):
    """Items that run end in peace; those that wait stay for the next worker."""
    worker = stage.start_worker(queues=["q-a"], concurrency=2)
    ids = enqueue(stage, "a", 20, "held")
    stage.wait_runs(2)
    worker.signal(SIGTERM)
    worker.wait_for_log("Warm shutdown")
    stage.traces.open("held")
    assert worker.wait() == 0
    assert sorted(stage.traces.ends()) == sorted(ids[:2])
    assert stage.traces.count() == 2
    assert (stage.redis.hlen("vtrr:a:task"), stage.inflight("a")) == (18, 0)
    stage.start_worker(queues=["q-a"], concurrency=2)
    runs = stage.wait_runs(20)
    stage.wait_rest("a")
    assert sorted(run["id"] for run in runs) == sorted(ids)
    assert {run["timeouts"] for run in runs} == {0}


def test_autoscaling_is_followed(stage):
    """The pool grows with the work up to its limit, and leases follow the limit."""
    worker = stage.start_worker(queues=["q-a"], args=["--autoscale=3,1"])
    with Highest(lambda: stage.inflight("a")) as leases:
        enqueue(stage, "a", 12, "held")
        assert len({run["pid"] for run in stage.wait_runs(3)}) == 3
        assert stage.inflight("a") == 3
        assert len(worker.children()) == 3

        stage.app.app.control.autoscale(max=5, min=1, reply=True, limit=1, timeout=5)
        stage.wait_runs(5)
        assert stage.inflight("a") == 5
        stage.traces.open("held")
        stage.wait_runs(12)
        stage.wait_rest("a")
    assert leases.value == 5


@pytest.mark.slow
def test_a_pool_that_grows_is_followed(stage):
    """Celery control pool_grow gives one more slot."""
    stage.start_worker(queues=["q-a"], concurrency=1)
    enqueue(stage, "a", 6, "held")
    stage.wait_runs(1)
    stage.app.app.control.pool_grow(1, reply=True, limit=1, timeout=5)
    stage.wait_runs(2)
    assert stage.inflight("a") == 2
    stage.traces.open("held")
    stage.wait_rest("a")


def test_one_worker_serves_several_queues(stage):
    """Neither queue waits for the other one's backlog."""
    stage.start_worker(queues=["q-a", "q-b"], concurrency=2)
    first = enqueue(stage, "a", 100, seconds=0.01)
    stage.wait_runs(10)
    second = enqueue(stage, "b", 20, seconds=0.01)
    runs = [run["id"] for run in stage.wait_runs(120)]
    stage.wait_rest("a")
    stage.wait_rest("b")
    assert sorted(runs) == sorted(first + second)
    assert max(runs.index(item_id) for item_id in second) < 80
