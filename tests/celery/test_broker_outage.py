"""The broker goes away and comes back: nothing is lost, released or run twice.

The state of the queues is on a server of its own, which stays.
"""

import os
import subprocess
import sys
import time
from signal import SIGCONT, SIGSTOP

import pytest

from tests.proxy import Proxy
from tests.servers import Server
from tests.stage import Stage
from tests.waiting import eventually
from tests.workers import APPS
from vtrr_queue.celery.feed import GONE_AFTER_SECONDS
from vtrr_queue.records import unpack_id

QUEUE = {"celery_queue": "outage", "trigger_timeout": 60}
FAULTS = ["refuse", "black_hole"]

PRODUCER = """
import sys, time
from steps import tasks
start = time.monotonic()
tasks["outage"].queue("u", [{} for _ in range(3)])
print(time.monotonic() - start)
"""


@pytest.fixture
def make_stage(tmp_path, dispatch):
    """Make stages that end with the test; `stage.proxy` stands before the broker."""
    stages = []
    with Server() as broker, Proxy((broker.host, broker.port)) as proxy:

        def make(*, behind_proxy=False, queue=QUEUE, **options):
            url = proxy.url() if behind_proxy else broker.url()
            stage = Stage(
                "steps", tmp_path, dispatch=dispatch, broker=broker, broker_url=url,
                QUEUES={"outage": queue}, **options,
            )  # fmt: skip
            stage.proxy = proxy
            stages.append(stage)
            return stage

        yield make
        for stage in stages:
            stage.__exit__(None, None, None)


def enqueue(stage, count, gate=None):
    return stage.app.tasks["outage"].queue("u", [{"args": [gate]} for _ in range(count)])


def stored_ids(stage):
    with stage.state.client() as client:
        return [unpack_id(stored) for stored in client.hkeys("vtrr:outage:task")]


def stored_or_run(stage, item_id):
    return item_id in stored_ids(stage) or stage.traces.runs(item_id)


def wait_reconnect(worker):
    """Wait until the worker has reached its broker again; return when it did."""
    eventually(lambda: worker.log().count("Connected to redis") == 2, 20, "the reconnect")
    return time.time()


def check_runs(stage, ids):
    """Every item ran once, and nothing is left."""
    stage.wait_rest("outage", 30)
    runs = stage.traces.runs()
    assert sorted(run["id"] for run in runs) == sorted(ids)
    assert {run["timeouts"] for run in runs} == {0}


def check_one_run_each(stage, ids):
    """As before, and nothing was released or timed out."""
    check_runs(stage, ids)
    assert all(f": {fate} (" not in worker.log() for worker in stage.workers
               for fate in ("release", "timed out"))  # fmt: skip


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_restart_interrupts_nothing(make_stage, pool):
    """What runs goes on, each item runs once, and feeding resumes soon after the reconnect."""
    stage = make_stage()
    worker = stage.start_worker(queues=["outage"], pool=pool, concurrency=2)
    ids = enqueue(stage, 12, "held")
    stage.wait_runs(2)
    stage.broker.restart()
    reconnected = wait_reconnect(worker)
    assert stage.inflight("outage") == 2
    stage.traces.open("held")
    assert stage.wait_runs(3)[2]["at"] - reconnected < 5
    check_one_run_each(stage, ids)


def test_what_the_pool_has_not_confirmed_yet_is_not_forgotten(make_stage):
    """The broker goes between the hand-over of an item and the word that it has begun."""
    stage = make_stage()
    worker = stage.start_worker(queues=["outage"], pool="prefork", concurrency=1)
    (child,) = worker.children()
    os.kill(child, SIGSTOP)
    ids = enqueue(stage, 1, "held")
    worker.wait_for_log(f"[{ids[0]}] received")
    stage.broker.kill()
    worker.wait_for_log("Cannot connect")
    os.kill(child, SIGCONT)
    stage.broker.start()
    reconnected = wait_reconnect(worker)
    stage.wait_runs(1)  # what had not reached the child yet comes again now
    eventually(lambda: time.time() > reconnected + GONE_AFTER_SECONDS + 1, what="a later moment")
    ids += enqueue(stage, 1)
    stage.traces.open("held")
    check_runs(stage, ids)


def test_an_item_that_ends_during_the_outage_is_acked_after_it(make_stage):
    """Its result waits in the worker; it is neither released nor run again."""
    stage = make_stage()
    worker = stage.start_worker(queues=["outage"], pool="prefork", concurrency=2)
    ids = enqueue(stage, 6, "held")
    stage.wait_runs(2)
    stage.broker.stop()
    worker.wait_for_log("Cannot connect")
    stage.traces.open("held")
    eventually(lambda: len(stage.traces.ends()) == 2, what="the ends of both runs")
    stage.broker.start()
    wait_reconnect(worker)
    check_one_run_each(stage, ids)


def test_late_items_after_an_outage_need_no_luck(make_stage):
    """Lost triggers fill the ledger; an item enqueued later runs at once all the same."""
    stage = make_stage()
    worker = stage.start_worker(queues=["outage"], pool="threads", concurrency=1)
    ids = enqueue(stage, 6, "held")
    stage.wait_runs(1)
    stage.broker.kill()
    stage.broker.start()
    wait_reconnect(worker)
    stage.traces.open("held")
    stage.wait_runs(6)
    stage.wait_rest("outage")
    ids += enqueue(stage, 1)
    stage.wait_runs(7, timeout=4)
    check_one_run_each(stage, ids)


@pytest.mark.parametrize("fault", FAULTS)
def test_enqueuing_does_not_wait_for_the_broker(make_stage, fault):
    """The call returns within 1 s, the items are stored, and they run once the broker is back."""
    stage = make_stage(behind_proxy=True)
    stage.start_worker(queues=["outage"], pool="threads", concurrency=2)
    ids = enqueue(stage, 1)
    stage.wait_runs(1)
    stage.wait_rest("outage")
    getattr(stage.proxy, fault)()
    for _ in range(3):
        start = time.monotonic()
        ids += enqueue(stage, 2)
        assert time.monotonic() - start < 1
        assert all(stored_or_run(stage, item_id) for item_id in ids)
    stage.proxy.heal()
    check_one_run_each(stage, ids)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_producer_that_has_ended_is_not_needed(make_stage, fault):
    """It ends with nothing sent: reclaim_and_dispatch sends what is missing, a worker runs it."""
    stage = make_stage(behind_proxy=True, queue={**QUEUE, "trigger_timeout": 1})
    getattr(stage.proxy, fault)()
    ended = subprocess.run(
        [sys.executable, "-c", PRODUCER], cwd=APPS, env={**os.environ, **stage.env},
        capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    assert float(ended.stdout) < 1, ended.stderr
    ids = stored_ids(stage)
    assert len(ids) == 3
    stage.proxy.heal()
    if stage.env["DISPATCH"] == "trigger":
        with stage.broker.client() as broker:
            assert not broker.exists("outage")

            def sent():
                stage.app.queues["outage"].reclaim_and_dispatch()
                return broker.exists("outage")

            eventually(sent, what="triggers")
    stage.start_worker(queues=["outage"], pool="threads", concurrency=2)
    check_one_run_each(stage, ids)


def test_tasks_that_celery_cancels_with_the_connection_run_again(make_stage):
    """worker_cancel_long_running_tasks_on_connection_loss: a release, and no timeout."""
    stage = make_stage(CONF={"worker_cancel_long_running_tasks_on_connection_loss": True})
    worker = stage.start_worker(queues=["outage"], pool="prefork", concurrency=1)
    (item_id,) = enqueue(stage, 1, "held")
    stage.wait_runs(1)
    stage.broker.restart()
    reconnected = wait_reconnect(worker)
    first, second = stage.wait_runs(2)
    assert second["at"] - reconnected < 5
    stage.traces.open("held")
    stage.wait_rest("outage")
    assert [first["id"], second["id"]] == [item_id, item_id]
    assert [first["timeouts"], second["timeouts"]] == [0, 0]
    assert stage.traces.count() == 2
    assert stage.traces.ends() == [item_id]
