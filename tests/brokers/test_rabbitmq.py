"""RabbitMQ carries the triggers: what holds with Redis as broker holds here, too.

The state of the queues and the results are on a server of their own.
"""

import pytest

from tests.celery import test_kills as kills
from tests.celery import test_triggers as triggers
from tests.celery.station import Station
from tests.rabbits import RabbitMQ, find_program
from tests.stage import Stage
from tests.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not find_program(), reason="no RabbitMQ: apt-get install rabbitmq-server"),
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


@pytest.fixture
def stage(rabbit, tmp_path):
    """Queues with no worker yet."""
    with Stage("steps", tmp_path, dispatch="trigger", broker=rabbit,
               QUEUES=triggers.QUEUES) as opened:  # fmt: skip
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
