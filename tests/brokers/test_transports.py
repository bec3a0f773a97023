"""Options of kombu's Redis transport, and brokers without a server."""

import pytest
from celery import signals
from celery.contrib.testing.worker import start_worker

from tests.callers import make_app
from tests.celery.test_triggers import QUEUES
from tests.stage import Stage
from tests.waiting import eventually
from vtrr_queue import VTRRQueue

OPTIONS = {
    "sep": {"sep": ":"},
    "priority_steps": {"priority_steps": list(range(10)), "queue_order_strategy": "priority"},
    "global_keyprefix": {"global_keyprefix": "app:"},
    "fanout_prefix": {"fanout_prefix": "fan.{db}.", "fanout_patterns": False},
    "all": {
        "sep": "|", "priority_steps": [0, 5], "global_keyprefix": "app:", "fanout_prefix": "fan.",
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_of_the_redis_transport(tmp_path, options):
    """The ledger counts triggers, not lists of the broker, so their names do not matter."""
    conf = {"broker_transport_options": options, "task_default_priority": 3}
    with (
        Stage("steps", tmp_path, dispatch="trigger", QUEUES=QUEUES, CONF=conf) as stage,
        stage.broker.client(decode_responses=True) as broker,
    ):
        work = stage.app.tasks["few"]
        ids = work.queue("u", [{} for _ in range(50)])
        assert stage.redis.zcard("vtrr:few:triggers") == 3
        lists = [key for key in broker.scan_iter() if broker.type(key) == "list"]
        assert sum(map(broker.llen, lists)) == 3
        if prefix := options.get("global_keyprefix"):
            assert {key.startswith(prefix) for key in broker.scan_iter()} == {True}
        stage.start_worker(queues=["q-few"], pool="threads", concurrency=2)
        stage.wait_runs(50)
        stage.wait_rest("few")
        assert sorted(run["id"] for run in stage.traces.runs()) == sorted(ids)
        eventually(lambda: not any(map(broker.llen, lists)), what="the end of the last triggers")


@pytest.fixture
def own_logging():
    """A worker in this process leaves the levels and handlers of the other tests alone."""

    def keep(**_):
        """Celery sets nothing up where somebody listens."""

    signals.setup_logging.connect(keep)
    yield
    signals.setup_logging.disconnect(keep)


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("dispatch", ["trigger", "direct"])
def test_the_memory_transport(redis_client, dispatch):
    """A worker in the same process, as in tests of an app."""
    app = make_app(result_backend="cache+memory://")
    vtrr = VTRRQueue(redis_client, app, name="files", celery_queue="celery", dispatch=dispatch)
    done = []

    @vtrr.task
    def work(self, number):
        """Keep the number."""
        done.append(number)

    with start_worker(app, pool="solo", perform_ping_check=False, queues=["celery"]):
        work.queue("u", [{"args": [number]} for number in range(20)])
        eventually(lambda: len(done) == 20, 20, "all runs")
        eventually(lambda: not redis_client.exists("vtrr:files:task"), 10, "an empty queue")
    assert done == list(range(20))
    vtrr.engine.client.close()
    app.close()
