"""Triggers: payload-free messages that wake workers, few at a time and harmless when useless."""

import time

import pytest

from tests.stage import Stage
from tests.waiting import eventually
from tests.watching import Highest

PATTERN = {"task_routes": {"*": {"queue": "elsewhere"}}, "task_default_queue": "elsewhere"}
QUEUES = {
    "one": {"celery_queue": "q-one", "max_concurrency": 1},
    "few": {"celery_queue": "q-few", "max_concurrency": 3},
    "other": {"celery_queue": "q-other", "max_concurrency": 2},
    "many": {"celery_queue": "q-many", "max_concurrency": 16},
}


@pytest.fixture(scope="module")
def _stage(tmp_path_factory):
    """The app routes every task elsewhere; workers belong to the tests."""
    folder = tmp_path_factory.mktemp("triggers")
    with Stage("steps", folder, dispatch="trigger", QUEUES=QUEUES, CONF=PATTERN) as stage:
        yield stage


@pytest.fixture
def broker(stage):
    """A client of the broker's database."""
    with stage.broker.client(decode_responses=True) as client:
        yield client


def enqueue(stage, name, count, gate=None, **kwargs):
    entries = [{"args": [gate], "kwargs": kwargs} for _ in range(count)]
    return stage.app.tasks[name].queue("u", entries)


def ledger(stage, name):
    return stage.redis.zcard(f"vtrr:{name}:triggers")


def test_a_thousand_triggers_for_one_item_make_one_run(stage, broker):
    """The useless ones end quietly: no error, no warning, nothing left in the broker."""
    name = stage.app.queues["few"].trigger_name
    with stage.app.app.producer_pool.acquire(block=True) as producer:
        for _ in range(1000):
            stage.app.app.send_task(name, queue="q-few", producer=producer, ignore_result=True)
    (item_id,) = enqueue(stage, "few", 1)
    worker = stage.start_worker(queues=["q-few"], pool="threads", concurrency=2)
    stage.wait_runs(1)
    eventually(lambda: not broker.exists("q-few", "unacked"), 20, "the end of all triggers")
    assert [run["id"] for run in stage.traces.runs()] == [item_id]
    assert not any(word in worker.log() for word in ("ERROR", "WARNING", "CRITICAL", "Traceback"))
    stage.wait_rest("few")


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_one_trigger_at_a_time_fills_a_pool(stage, pool):
    """max_concurrency=1, one enqueue of 100, a pool of 8: eight items run at once, all run."""
    stage.start_worker(queues=["q-one"], pool=pool, concurrency=8)
    ids = enqueue(stage, "one", 100, "full")
    stage.wait_runs(8)
    assert stage.inflight("one") == 8
    stage.traces.open("full")
    runs = stage.wait_runs(100)
    stage.wait_rest("one")
    assert sorted(run["id"] for run in runs) == sorted(ids)


def test_the_next_trigger_is_sent_when_the_item_fails(stage):
    """A queue drains with max_concurrency=1 although every item fails."""
    stage.start_worker(queues=["q-one"], pool="threads", concurrency=1)
    enqueue(stage, "one", 10, wrong="argument")
    stage.wait_rest("one")


def test_the_ledger_stays_within_max_concurrency(stage, broker):
    """So does the broker, and no trigger is left behind."""
    with (
        Highest(lambda: ledger(stage, "few")) as outstanding,
        Highest(lambda: broker.llen("q-few")) as queued,
    ):
        enqueue(stage, "few", 100)
        stage.start_worker(queues=["q-few"], pool="threads", concurrency=4)
        enqueue(stage, "few", 100)
        stage.wait_runs(200)
        stage.wait_rest("few")
    assert outstanding.value == 3
    assert queued.value <= 3
    assert outstanding.reads > 50
    assert queued.reads > 50
    eventually(lambda: not broker.exists("q-few", "unacked"), what="the end of the last triggers")
    assert ledger(stage, "few") == 0


def test_triggers_go_to_their_queue_whatever_the_routes_say(stage, broker):
    """task_routes with "*" and task_default_queue move none of them."""
    enqueue(stage, "few", 5)
    assert broker.llen("q-few") == 3
    assert not broker.exists("elsewhere")


def test_queues_have_budgets_of_their_own(stage, broker):
    """A flood on a queue that nobody consumes doesn't hold up the other; one worker serves both."""
    flood = enqueue(stage, "few", 50)
    worker = stage.start_worker(queues=["q-other"], pool="threads", concurrency=2)
    enqueue(stage, "other", 20)
    stage.wait_rest("other")
    assert broker.llen("q-few") == 3
    assert ledger(stage, "few") == 3
    stage.end_worker(worker)

    stage.start_worker(queues=["q-few", "q-other"], pool="threads", concurrency=2)
    more = enqueue(stage, "other", 20)
    stage.wait_rest("few")
    stage.wait_rest("other")
    ran = [run["id"] for run in stage.traces.runs()]
    assert sorted(ran[20:]) == sorted(flood + more)


def test_a_busy_worker_takes_no_trigger_from_an_idle_one(stage):
    """Prefetch multiplier 1: what comes after the long item starts on the other worker at once."""
    options = {"queues": ["q-few"], "concurrency": 1, "args": ["--prefetch-multiplier=1"]}
    workers = [stage.start_worker(ready=False, **options) for _ in range(2)]
    for worker in workers:
        worker.wait_ready()
    enqueue(stage, "few", 1, "long")
    (busy,) = stage.wait_runs(1)
    for number in range(5):
        sent = time.time()
        enqueue(stage, "few", 1)
        run = stage.wait_runs(2 + number)[-1]
        assert run["worker"] != busy["worker"]
        assert run["at"] - sent < 1
    stage.traces.open("long")
    stage.wait_rest("few")


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["busy", "killed"])
def test_triggers_that_a_worker_sits_on_hold_up_nobody(stage, fate):
    """A busy worker has prefetched all of them, or died with them: an idle one goes on soon."""
    holder = stage.start_worker(queues=["q-few"], pool="threads", concurrency=1)
    enqueue(stage, "few", 12, "long")
    stage.wait_runs(1)
    eventually(lambda: ledger(stage, "few") == 3, what="the triggers")
    stage.start_worker(queues=["q-few"], pool="threads", concurrency=2)
    if fate == "killed":
        holder.kill_group()
    stage.wait_runs(3, timeout=10)
    stage.traces.open("long")
    stage.wait_runs(12, timeout=10)


def sent(broker):
    """How many messages were put into the broker so far."""
    return broker.info("commandstats").get("cmdstat_lpush", {}).get("calls", 0)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_short_items_share_a_trigger(stage, broker, pool):
    """A trigger of a busy queue serves up to four items that end soon; all run, in order."""
    ids = enqueue(stage, "few", 400)
    before = sent(broker)
    stage.start_worker(queues=["q-few"], pool=pool, concurrency=1)
    runs = stage.wait_runs(400)
    stage.wait_rest("few")
    assert [run["id"] for run in runs] == ids
    assert 400 / 4 - 5 <= sent(broker) - before < 400 / 1.5


def test_longer_items_have_a_trigger_each(stage, broker):
    """What ends later than that leaves the slot to whoever's message comes first."""
    enqueue(stage, "few", 20, seconds=0.05)
    before = sent(broker)
    stage.start_worker(queues=["q-few"], concurrency=1)
    stage.wait_rest("few")
    assert sent(broker) - before >= 20 - 3  # the first three were sent by the enqueue


def test_a_single_item_makes_one_lease(stage):
    """No other is asked for when nothing more is known to wait."""
    stage.start_worker(queues=["q-few"], concurrency=1)
    enqueue(stage, "few", 1)
    stage.wait_rest("few")
    before = stage.script_calls()
    for _ in range(40):
        enqueue(stage, "few", 1)
        eventually(lambda: not stage.redis.exists("vtrr:few:task"), what="the item's end")
    assert (
        stage.script_calls() - before
        < 4 * 40  # enqueue, lease, ack, and a few looks of the worker's
    )  # enqueue, lease, ack; what the worker does beside


def test_a_plain_task_gets_its_turn_beside_short_items(stage):
    """One slot, one message at a time: it starts long before the flood is over."""
    args = ["--prefetch-multiplier=1"]
    stage.start_worker(queues=["q-few", "q-plain"], concurrency=1, args=args)
    enqueue(stage, "few", 3000)
    stage.wait_runs(50)
    result = stage.app.plain.apply_async((), queue="q-plain")
    eventually(result.ready, 10, "the plain task's end")
    assert stage.traces.count() < 2500


@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_greenlets_take_the_next_trigger_at_once(stage, pool):
    """With prefetch multiplier 1, Celery's loop for them would wait for two seconds each time."""
    args = ["--prefetch-multiplier=1"]
    stage.start_worker(queues=["q-many"], pool=pool, concurrency=8, args=args)
    enqueue(stage, "many", 40, seconds=0.1)
    runs = stage.wait_runs(40)
    stage.wait_rest("many")
    assert runs[-1]["at"] - runs[0]["at"] < 4
