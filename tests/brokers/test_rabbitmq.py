"""RabbitMQ carries the triggers: what holds with Redis as broker holds here, too.

The state of the queues and the results are on a server of their own.
"""

import os
import time

import pytest

from tests.celery import test_kills as kills
from tests.celery import test_triggers as triggers
from tests.celery.station import CELERY, Station
from tests.rabbits import RabbitMQ, find_program
from tests.stage import Stage
from tests.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        not (find_program() or os.environ.get("CI")),
        reason="no RabbitMQ: apt-get install rabbitmq-server",
    ),
]

test_a_killed_child = kills.test_a_killed_child
test_a_killed_worker = kills.test_a_killed_worker
test_nothing_is_lost_over_many_items = kills.test_nothing_is_lost_over_many_items
test_one_trigger_at_a_time_fills_a_pool = triggers.test_one_trigger_at_a_time_fills_a_pool
test_the_next_trigger_is_sent_when_the_item_fails = (
    triggers.test_the_next_trigger_is_sent_when_the_item_fails
)
test_a_busy_worker_takes_no_trigger_from_an_idle_one = (
    triggers.test_a_busy_worker_takes_no_trigger_from_an_idle_one
)


@pytest.fixture(scope="module")
def rabbit():
    with RabbitMQ() as running:
        yield running


@pytest.fixture(scope="module")
def station(rabbit, tmp_path_factory):
    """Workers of two processes, under a lease of two seconds."""
    folder = tmp_path_factory.mktemp("kills")
    with Station(folder, "trigger", lease_seconds=2, broker=rabbit) as opened:
        yield opened


def open_stage(rabbit, folder, **env):
    """Queues with no worker yet."""
    return Stage("steps", folder, dispatch="trigger", broker=rabbit, QUEUES=triggers.QUEUES, **env)


@pytest.fixture
def stage(rabbit, tmp_path):
    with open_stage(rabbit, tmp_path) as opened:
        yield opened


def test_two_thousand_items_drain(stage, rabbit):
    """Each runs once, and no trigger is left behind."""
    worker = stage.start_worker(queues=["q-few"], pool="threads", concurrency=8)
    ids = [
        item_id
        for number in range(10)
        for item_id in stage.app.tasks["few"].queue(f"p{number}", [{} for _ in range(200)])
    ]
    stage.wait_runs(len(ids), timeout=60)
    stage.wait_rest("few")
    assert sorted(run["id"] for run in stage.traces.runs()) == sorted(ids)
    eventually(lambda: rabbit.waiting("q-few") == 0, what="the end of the last triggers")
    assert "ERROR" not in worker.log()


def test_results_are_kept_under_the_items_id(stage):
    """Broker and result backend are two services."""
    stage.start_worker(queues=["q-few"], pool="threads", concurrency=2)
    (item_id,) = stage.app.tasks["few"].queue("u", [{"kwargs": {"result": 42}}])
    assert stage.app.app.AsyncResult(item_id).get(timeout=20) == 42


@pytest.mark.parametrize(
    "conf",
    [
        {"task_queue_max_priority": 5},
        pytest.param(
            {"task_create_missing_queue_type": "quorum"},
            marks=pytest.mark.skipif(CELERY < (5, 6), reason="a setting of Celery 5.6"),
        ),
    ],
    ids=["priorities", "quorum"],
)
def test_the_queue_is_declared_as_a_worker_declares_it(tmp_path, conf):
    """RabbitMQ refuses whoever comes second with other arguments; here producer, then worker."""
    with RabbitMQ() as rabbit, open_stage(rabbit, tmp_path, CONF=conf) as stage:
        ids = stage.app.tasks["few"].queue("u", [{} for _ in range(20)])
        eventually(lambda: rabbit.waiting("q-few") == 3, what="the triggers")
        stage.start_worker(queues=["q-few"], concurrency=2)
        stage.wait_runs(len(ids))
        stage.app.tasks["few"].queue("u", [{} for _ in range(20)])
        stage.wait_runs(2 * len(ids))
        stage.wait_rest("few")


def test_items_may_run_for_longer_than_rabbitmq_waits_for_an_ack(tmp_path):
    """RabbitMQ would close the channel, and Celery end the worker."""
    limits = {"consumer_timeout": 2000, "channel_tick_interval": 200}
    with (
        RabbitMQ(**limits) as rabbit,
        open_stage(rabbit, tmp_path, UNACKED_SECONDS="1") as stage,
    ):
        worker = stage.start_worker(queues=["q-few"], concurrency=2)
        entries = [{"kwargs": {"seconds": 5}} for _ in range(6)]  # more than slots: some wait there
        stage.app.tasks["few"].queue("u", entries)
        eventually(lambda: len(stage.traces.ends()) == 6, 40, "the end of all items")
        stage.wait_rest("few")
        assert worker.is_running()
        assert stage.traces.count() == 6
        assert "PRECONDITION_FAILED" not in rabbit.log()


def test_the_broker_dies_and_comes_back(tmp_path):
    """What runs goes on, an enqueue returns at once, and all of it runs."""
    with RabbitMQ() as rabbit, open_stage(rabbit, tmp_path) as stage:
        stage.start_worker(queues=["q-few"], pool="threads", concurrency=2)
        ids = stage.app.tasks["few"].queue("u", [{"args": ["gate"]} for _ in range(4)])
        stage.wait_runs(2)
        rabbit.kill()
        before = time.monotonic()
        ids += stage.app.tasks["few"].queue("u", [{} for _ in range(4)])
        assert time.monotonic() - before < 1
        stage.traces.open("gate")
        rabbit.start()
        stage.wait_runs(8, timeout=40)
        stage.wait_rest("few", timeout=40)
        runs = stage.traces.runs()
        assert sorted(run["id"] for run in runs) == sorted(ids)
        assert {run["timeouts"] for run in runs} == {0}
