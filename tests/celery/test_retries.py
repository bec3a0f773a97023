"""A retry keeps the item: its count, its payload, and one run for each retry."""

import pytest
from celery.exceptions import MaxRetriesExceededError

from tests.proxy import Proxy
from tests.servers import Server
from tests.stage import DISPATCHES, Stage
from tests.stored import without_statistics
from tests.waiting import eventually
from vtrr_queue.records import pack_id


@pytest.fixture(scope="module", params=DISPATCHES)
def dispatch(request):
    return request.param


@pytest.fixture(scope="module")
def _stage(dispatch, tmp_path_factory):
    """One worker for the whole file."""
    with Stage("retries", tmp_path_factory.mktemp("retries"), dispatch=dispatch) as stage:

        def start():
            stage.worker = stage.start_worker(queues=["retries"], concurrency=2)

        stage.start = start
        start()
        yield stage


@pytest.fixture
def stage(_stage):
    """The stage without what earlier tests left."""
    _stage.clear()
    return _stage


def enqueue(task, *args, **kwargs):
    """Enqueue one call and return its result handle."""
    (item_id,) = task.queue("u", [{"args": args, "kwargs": kwargs}])
    return task.AsyncResult(item_id)


def retries_of(runs):
    return [run["retries"] for run in runs]


def test_a_bare_retry_runs_until_the_limit(stage):
    """max_retries=2 makes three runs of the same payload, then MaxRetriesExceededError."""
    result = enqueue(stage.app.work, "again")
    with pytest.raises(MaxRetriesExceededError):
        result.get(timeout=20)
    runs = stage.traces.runs()
    assert retries_of(runs) == [0, 1, 2]
    assert {run["id"] for run in runs} == {result.id}
    assert all(run["args"] == ["again"] and run["timeouts"] == 0 for run in runs)
    assert all(run["partition"] == "u" for run in runs)
    stage.wait_rest("retried")


def test_a_countdown_is_waited_for(stage):
    """Neither earlier than the countdown nor without end; one more run."""
    enqueue(stage.app.work, "with_countdown", 0.7).get(timeout=20)
    first, second = stage.traces.runs()
    assert (first["retries"], second["retries"]) == (0, 1)
    assert 0.7 <= second["at"] - first["at"] < 5
    stage.wait_rest("retried")


def test_an_error_of_its_own_is_the_end(stage):
    """retry(exc=) raises that error when the limit is reached."""
    with pytest.raises(Exception, match="gave up") as caught:
        enqueue(stage.app.work, "with_error").get(timeout=20)
    assert type(caught.value).__name__ == "Upset"
    assert retries_of(stage.traces.runs()) == [0, 1, 2]
    stage.wait_rest("retried")


def test_a_retry_may_change_the_payload(stage):
    """The retry runs with its own args and kwargs, the first run with the first ones."""
    assert enqueue(stage.app.work, "with_payload", 1).get(timeout=20) == [2, "new"]
    first, second = stage.traces.runs()
    assert (first["args"], first["kwargs"]) == (["with_payload", 1], {})
    assert (second["args"], second["kwargs"]) == (["with_payload", 2], {"text": "new"})
    stage.wait_rest("retried")


def test_a_retry_that_does_not_throw_is_kept(stage):
    """The body returns after retry(throw=False); the retry runs (Celery keeps the first result)."""
    result = enqueue(stage.app.work, "without_throwing")
    stage.wait_runs(2)
    stage.wait_rest("retried")
    assert retries_of(stage.traces.runs()) == [0, 1]
    assert result.get(timeout=5) == "first"


def test_a_limit_of_the_call_counts_for_that_call(stage):
    """retry(max_retries=1) makes two runs and leaves the task's own limit alone."""
    with pytest.raises(MaxRetriesExceededError):
        enqueue(stage.app.work, "with_limit", 1).get(timeout=20)
    assert retries_of(stage.traces.runs()) == [0, 1]
    with pytest.raises(MaxRetriesExceededError):
        enqueue(stage.app.work, "again").get(timeout=20)
    assert retries_of(stage.traces.runs()[2:]) == [0, 1, 2]
    stage.wait_rest("retried")


def test_autoretry_backs_off(stage):
    """autoretry_for with retry_backoff=1: after 1 s and 2 s, then the error itself."""
    with pytest.raises(Exception, match="again") as caught:
        enqueue(stage.app.upset).get(timeout=20)
    assert type(caught.value).__name__ == "Upset"
    runs = stage.traces.runs()
    assert retries_of(runs) == [0, 1, 2]
    assert runs[1]["at"] - runs[0]["at"] >= 1
    assert runs[2]["at"] - runs[1]["at"] >= 2
    stage.wait_rest("automatic")


def test_a_limit_of_one_call_is_not_left_on_the_task(stage):
    """Celery keeps retry(max_retries=) on the task, where another item's autoretry_for finds it."""
    assert stage.app.upset.apply(kwargs={"limit": 0}).failed()
    assert not hasattr(stage.app.upset.celery_task, "override_max_retries")
    assert stage.app.upset.apply().failed()
    assert retries_of(stage.traces.runs()) == [0, 0, 1, 2]


def test_a_retry_does_not_need_the_broker(dispatch, tmp_path):
    """The broker is away while the body retries: the retry is stored, and runs once it is back."""
    with (
        Server() as broker,
        Proxy((broker.host, broker.port)) as proxy,
        Stage(
            "retries", tmp_path, dispatch=dispatch, broker=broker, broker_url=proxy.url()
        ) as stage,
    ):
        stage.start_worker(queues=["retries"], concurrency=2)
        result = enqueue(stage.app.work, "after_gate", "away")
        stage.wait_runs(1)
        proxy.refuse()
        stage.traces.open("away")
        eventually(lambda: not stage.inflight("retried"), what="the retry in Redis")
        assert stage.redis.hlen("vtrr:retried:task") == 1
        proxy.heal()
        assert result.get(timeout=30) == "retried"
        runs = stage.traces.runs()
        assert retries_of(runs) == [0, 1]
        assert [run["timeouts"] for run in runs] == [0, 0]
        stage.wait_rest("retried")


def test_a_countdown_longer_than_the_lease_runs_once(stage):
    """A delayed item holds no lease, so nothing expires."""
    seconds = stage.app.LEASE + 0.5
    enqueue(stage.app.brief_work, "with_countdown", seconds).get(timeout=20)
    runs = stage.traces.runs()
    assert retries_of(runs) == [0, 1]
    assert [run["timeouts"] for run in runs] == [0, 0]
    stage.wait_rest("brief")


def test_a_stale_holder_cannot_retry(stage):
    """A run whose lease was given to another one asks for a retry: it is dropped."""
    dropped = stage.worker.log().count("dropped: its lease ended")
    result = enqueue(stage.app.brief_work, "stale", "expired")
    first, second = stage.wait_runs(2)
    assert second["timeouts"] == 1
    late = second["at"] - first["at"] - stage.app.LEASE
    assert -0.2 < late < 1, "the end of a lease is noticed without Beat, and at once"
    assert result.get(timeout=20) == "second"
    stage.wait_rest("brief")
    stage.traces.open("expired")
    eventually(
        lambda: stage.worker.log().count("dropped: its lease ended") > dropped,
        what="the retry dropped",
    )
    assert not stage.redis.keys("vtrr:brief:delayed")
    assert retries_of(stage.traces.runs()) == [0, 0]
    assert not stage.redis.exists("vtrr:brief:task")


def test_the_count_survives_a_crash(stage):
    """A process killed in its first retry: the next run is still the first retry."""
    assert enqueue(stage.app.work, "crashing").get(timeout=30) == "third"
    runs = stage.traces.runs()
    assert [(run["retries"], run["timeouts"]) for run in runs] == [(0, 0), (1, 0), (1, 1)]
    stage.wait_rest("retried")


def test_a_retry_outlives_its_worker(stage):
    """Everything is killed between two runs: another worker makes the first retry, no timeout."""
    result = enqueue(stage.app.work, "with_countdown", 1)
    eventually(lambda: stage.redis.exists("vtrr:retried:delayed"), what="the retry in Redis")
    stage.end_worker(stage.worker)
    stage.start()
    result.get(timeout=20)
    runs = stage.traces.runs()
    assert [(run["retries"], run["timeouts"]) for run in runs] == [(0, 0), (1, 0)]
    stage.wait_rest("retried")


def test_a_task_retries_only_itself(stage):
    """Retrying another queue's task stores no retry anywhere: the item is kept as a dead letter."""
    item_id = enqueue(stage.app.work, "retry_another").id
    stage.wait_rest("retried")
    assert len(stage.traces.runs()) == 1
    with stage.state.client() as client:
        assert b"stored no retry" in client.hget("vtrr:retried:dead", pack_id(item_id))
    assert without_statistics(stage.redis.keys("vtrr:brief:*")) == []
    stage.worker.wait_for_log(f"item {item_id} of queue 'retried' is a dead letter")


def test_a_base_may_override_retry(stage):
    """The base's own `retry` is called, and the item is kept."""
    with pytest.raises(MaxRetriesExceededError):
        enqueue(stage.app.based_work).get(timeout=20)
    assert retries_of(stage.traces.runs()) == [0, 1]
    assert stage.traces.client.get("retries asked for") == "2"
    stage.wait_rest("based")
