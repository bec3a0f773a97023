"""What `drain` runs, in which order, and how it ends: as a worker with one slot does."""

import asyncio
from datetime import timedelta

import pytest
import redis
from celery import chain, signals
from celery.exceptions import Ignore, Reject, Retry

from tests.callers import define, make_app
from vtrr_queue import ArgumentError, ArgumentTypeError, VTRRQueue
from vtrr_queue.testing import NeverEmpty, drain

NOWHERE = redis.Redis(port=1)
NOWHERE_TOO = "127.0.0.1:1/0"


@pytest.fixture
def make(vtrr_local):
    """Make queues whose own server does not exist."""

    def make(function=None, *, task=None, **options):
        app = make_app(result_backend="cache+memory://")
        vtrr = VTRRQueue(NOWHERE, app, **{"name": "q", "dispatch": "direct"} | options)
        vtrr.work = vtrr.task(**task or {})(function) if function else define(vtrr, **task or {})
        made.append(vtrr_local(vtrr))
        return vtrr

    made = []
    yield make
    for vtrr in made:
        assert vtrr.inspector.audit() == []


def ids(runs):
    return [run.item_id for run in runs]


@pytest.mark.parametrize("dispatch", ["direct", "trigger"])
def test_items_run_in_fair_order(make, dispatch):
    """Partitions take turns, whoever came first; the values are those that were passed."""
    vtrr = make(dispatch=dispatch)
    vtrr.work.queue("acme", [{"id": f"a{at}", "args": [at]} for at in range(3)])
    vtrr.work.queue("bolt", [{"id": "b0", "kwargs": {"x": 1}}])
    first, second, *rest = drain(vtrr)
    assert (first.item_id, first.partition, first.args, first.kwargs) == ("a0", "acme", (0,), {})
    assert (second.item_id, second.partition, second.kwargs) == ("b0", "bolt", {"x": 1})
    assert (second.state, second.result) == ("SUCCESS", ((), {"x": 1}))
    assert ids(rest) == ["a1", "a2"]
    assert drain(vtrr) == []
    assert list(vtrr.inspector.client.read(("HLEN", vtrr.engine.keys["task"]))) == [0]


def test_signals_and_results_are_those_of_a_worker(make):
    """The item has its id in `task_prerun`, in its request and in the result backend."""
    seen = []

    def note(self):
        request = self.request
        seen.append((request.id, request.vtrr_partition, request.vtrr_timeouts, len(
            request.vtrr_token), request.vtrr_lease_held()))  # fmt: skip
        return "done"

    def before(task_id, **_):
        seen.append(task_id)

    vtrr = make(note)
    signals.task_prerun.connect(before, weak=False)
    try:
        vtrr.work.queue("acme", [{"id": "noted"}])
        drain(vtrr)
    finally:
        signals.task_prerun.disconnect(before)
    assert seen == ["noted", ("noted", "acme", 0, 32, True)]
    assert vtrr.work.AsyncResult("noted").get(timeout=5) == "done"


def test_a_retry_waits_for_its_time(make, vtrr_clock):
    """It runs when the clock has come to it, with its count, and succeeds."""

    def flaky(self):
        if self.request.retries < 2:
            raise ConnectionError("not yet")
        return "at last"

    vtrr = make(flaky, task={"autoretry_for": (ConnectionError,), "default_retry_delay": 60})
    vtrr.work.queue("acme", [{"id": "i"}])
    (run,) = drain(vtrr)
    assert (run.state, run.retries, type(run.result)) == ("RETRY", 0, Retry)
    assert drain(vtrr) == []
    vtrr_clock.advance(59)
    assert drain(vtrr) == []
    vtrr_clock.advance(timedelta(seconds=1.001))
    assert [run.retries for run in drain(vtrr)] == [1]
    assert [(run.state, run.result) for run in drain(vtrr, until_empty=True)] == [
        ("SUCCESS", "at last")
    ]


def test_countdowns_run_at_their_time(make, vtrr_clock):
    """An hour costs nothing; what has no countdown runs before."""
    vtrr = make()
    vtrr.work.apply_async(partition_key="acme", task_id="later", countdown=3600)
    vtrr.work.apply_async(partition_key="acme", task_id="now")
    assert ids(drain(vtrr)) == ["now"]
    before = vtrr_clock.now
    vtrr_clock.advance(3600)
    assert vtrr_clock.now - before == timedelta(hours=1)
    assert ids(drain(vtrr)) == ["later"]


def test_until_empty_needs_no_clock(make, vtrr_redis):
    """What waits a day, and what a rate holds back, runs in one call; then time is real again."""
    vtrr = make(default_rate="1/m")
    vtrr.work.queue("acme", [{"id": "a1"}, {"id": "a2"}, {"id": "a3"}])
    vtrr.work.apply_async(partition_key="bolt", task_id="b1", countdown=86_400)
    assert ids(drain(vtrr)) == ["a1"]
    assert ids(drain(vtrr, until_empty=True)) == ["a2", "a3", "b1"]
    assert vtrr.engine.client.clock_key == ""
    assert vtrr_redis.keys("vtrr-testing:*") == []
    vtrr.work.queue("cask", [{"id": "c1"}])
    assert ids(drain(vtrr)) == ["c1"]


def test_a_paused_partition_is_left_alone(make):
    """`until_empty` does not go round for ever."""
    vtrr = make()
    vtrr.pause("acme")
    vtrr.work.queue("acme", [{"id": "a1"}])
    assert drain(vtrr, until_empty=True) == []
    vtrr.resume("acme")
    assert ids(drain(vtrr)) == ["a1"]


def test_a_lease_that_ended_comes_back_with_its_timeout(make, vtrr_clock):
    """As after the death of a worker."""
    vtrr = make(lease_seconds=30)
    vtrr.work.queue("acme", [{"id": "i"}])
    assert vtrr._dequeue()[3] == "i"
    assert drain(vtrr) == []
    vtrr_clock.advance(31)
    assert [(run.item_id, run.timeouts) for run in drain(vtrr)] == [("i", 1)]


def test_failures_and_dead_letters(make):
    """An exception is the run's result; with `on_failure="dead"` the item is kept."""

    def fail(self, how):
        raise {"error": LookupError, "ignore": Ignore, "reject": Reject}[how]("why")

    vtrr = make(fail, on_failure="dead")
    for how in ("error", "ignore", "reject"):
        vtrr.work.queue("acme", [{"id": how, "args": [how]}])
    error, ignore, reject = drain(vtrr)
    assert (error.state, repr(error.result)) == ("FAILURE", "LookupError('why')")
    assert (ignore.state, reject.state) == ("IGNORED", "REJECTED")
    letters = {letter.item_id: letter for letter in vtrr.dead.latest()}
    assert set(letters) == {"error", "reject"}
    assert "LookupError" in vtrr.dead.get("error").traceback


def test_an_item_of_another_task_becomes_a_dead_letter(make, caplog):
    vtrr = make()
    vtrr.work.queue("acme", [{"id": "i"}])

    def other_task(self):
        """Another one of the same queue, as after a rename."""

    other = make(other_task)
    (run,) = drain(other)
    assert (run.state, run.args) == ("REJECTED", ())
    assert "is not the task of this queue" in str(run.result)
    assert [letter.item_id for letter in other.dead.latest()] == ["i"]
    assert "item i of queue 'q' is a dead letter" in caplog.text


@pytest.mark.parametrize("stop", [KeyboardInterrupt, pytest.fail.Exception])
def test_what_is_no_error_of_the_function_ends_the_drain(make, stop):
    """The item is put back, as that of a process that dies."""

    def break_off(self):
        if self.request.vtrr_timeouts == 0:
            raise stop("stop")
        return "again"

    vtrr = make(break_off)
    vtrr.work.queue("acme", [{"id": "i"}])
    with pytest.raises(stop):
        drain(vtrr)
    (run,) = drain(vtrr)
    assert (run.result, run.timeouts) == ("again", 1)


def test_what_functions_enqueue_runs_too(make):
    def spawn(self, depth):
        if depth:
            spawned.work.queue("acme", [{"args": [depth - 1]}])

    spawned = make(spawn)
    spawned.work.queue("acme", [{"args": [3]}])
    assert [run.args for run in drain(spawned)] == [(3,), (2,), (1,), (0,)]


def test_a_queue_that_fills_itself_is_given_up(make):
    """The error has the runs."""

    def again(self):
        endless.work.queue("acme", [{}])

    endless = make(again)
    endless.work.queue("acme", [{}])
    with pytest.raises(NeverEmpty, match="not empty after 20 runs") as caught:
        drain(endless, most=20)
    assert len(caught.value.runs) == 20
    endless.purge("acme")


def test_a_chain_goes_on(make):
    """A signature that follows is enqueued when the first has run."""

    def add(self, x, y=1):
        return x + y

    vtrr = make(add)
    step = vtrr.work.s(1).set(partition_key="acme")
    chain(step, vtrr.work.s(10).set(partition_key="bolt")).apply_async()
    assert [(run.partition, run.result) for run in drain(vtrr)] == [("acme", 2), ("bolt", 12)]


def test_coroutines_enqueue_on_the_local_server(make):
    vtrr = make()
    asyncio.run(vtrr.work.aqueue("acme", [{"id": "i"}]))
    assert ids(drain(vtrr)) == ["i"]


def test_expired_items_are_revoked(make):
    vtrr = make()
    vtrr.work.apply_async(partition_key="acme", task_id="i", expires=-1)
    assert [(run.item_id, run.state) for run in drain(vtrr)] == [("i", "REVOKED")]
    vtrr.work.queue("acme", [{"id": "i"}])
    assert [(run.item_id, run.state) for run in drain(vtrr)] == [("i", "SUCCESS")]


@pytest.mark.parametrize("countdown", [None, 60])
def test_revoke_needs_neither_broker_nor_worker(vtrr_local, monkeypatch, countdown):
    """What waits is cancelled and its result says so, what has run is left as it is."""
    app = make_app(broker_url=f"redis://{NOWHERE_TOO}", result_backend="cache+memory://")
    vtrr = VTRRQueue(NOWHERE, app, name="q")
    work = define(vtrr)
    vtrr_local(vtrr)
    monkeypatch.setattr(app, "connection_for_write", pytest.fail)
    monkeypatch.setattr(app, "connection_or_acquire", pytest.fail)
    taken = work.apply_async(partition_key="acme", countdown=countdown)
    other = work.apply_async(partition_key="acme")
    taken.revoke()
    assert ids(drain(vtrr, until_empty=True)) == [other.id]
    assert (taken.state, other.state) == ("REVOKED", "SUCCESS")


def test_revoke_of_what_has_run_warns_without_a_broker(vtrr_local, caplog):
    """A test need not know whether the item still waits."""
    vtrr = VTRRQueue(NOWHERE, make_app(broker_url=f"redis://{NOWHERE_TOO}"), name="q")
    work = define(vtrr)
    vtrr_local(vtrr)
    result = work.apply_async(partition_key="acme")
    drain(vtrr)
    result.revoke()
    assert "no worker was told" in caplog.text


def test_bad_arguments_are_named(make):
    with pytest.raises(ArgumentTypeError, match="queue must be a VTRRQueue"):
        drain("q")
    with pytest.raises(ArgumentError, match="a queue with a task"):
        drain(VTRRQueue(NOWHERE, make_app(), name="without"))
    with pytest.raises(ArgumentError, match="most"):
        drain(make(), most=0)


@pytest.mark.parametrize(("by", "error"), [
    ("1", ArgumentTypeError), (True, ArgumentTypeError), (-1, ArgumentError),
    (float("nan"), ArgumentError), (timedelta(days=-1), ArgumentError),
])  # fmt: skip
def test_the_clock_goes_forward_only(vtrr_clock, by, error):
    with pytest.raises(error, match="by"):
        vtrr_clock.advance(by)
