"""`revoke` takes an item that waits out of Redis, and its result is REVOKED."""

import json
import time

import pytest
from celery import chord, states
from celery.exceptions import TaskRevokedError
from kombu.exceptions import OperationalError

from tests.proxy import Proxy
from tests.stage import Stage
from tests.waiting import eventually

PATIENCE = 20
AWAY_SECONDS = 2


@pytest.fixture
def stage(dispatch, tmp_path):
    """An app without workers."""
    with Stage("canvas", tmp_path, dispatch=dispatch) as stage:
        yield stage


@pytest.fixture
def app(stage):
    return stage.app


def start(stage, **options):
    """Start a worker for fair and plain tasks."""
    settings = {"queues": ["canvas-fair", "canvas-plain"], "concurrency": 1} | options
    return stage.start_worker(**settings)


def waiting(stage):
    """How many items wait."""
    return stage.app.doubling.inspector.depth().waiting


def block(stage):
    """Keep the one slot of a worker busy."""
    (item_id,) = stage.app.double.queue("b", [{"args": [0], "kwargs": {"gate": "busy"}}])
    stage.wait_runs(1)
    return item_id


def assert_revoked(app, *item_ids):
    """Their results say so, to those who wait for them as well."""
    for item_id in item_ids:
        result = app.app.AsyncResult(item_id)
        assert result.state == states.REVOKED
        with pytest.raises(TaskRevokedError):
            result.get(timeout=PATIENCE)


def told(stage, item_id):
    """Wait for what the `task_revoked` signals of an item say."""

    def find():
        said = [json.loads(text) for text in stage.traces.client.lrange("signals", 0, -1)]
        return [one for one in said if (one["id"], one["signal"]) == (item_id, "revoked")]

    return eventually(find, what="the signal")


def test_a_worker_takes_out_what_waits(stage, app):
    """At once, long before its turn; the signal is sent there and tells of the item."""
    start(stage)
    busy = block(stage)
    one, two = app.double.queue("u", [{"args": [1]}, {"args": [2]}])
    later = app.double.apply_async((3,), partition_key="u", countdown=600).id
    app.app.AsyncResult(one).revoke()
    app.app.control.revoke([later, "nobody"])
    assert_revoked(app, one, later)
    assert waiting(stage) == 1
    (signal,) = told(stage, one)
    assert (signal["args"], signal["name"]) == ([1], app.double.name)
    assert (signal["terminated"], signal["expired"]) == (False, False)
    stage.traces.open("busy")
    assert app.app.AsyncResult(two).get(timeout=PATIENCE) == 4
    stage.wait_rest("doubling")
    assert {run["id"] for run in stage.traces.runs()} == {busy, two}


def test_a_command_from_elsewhere_is_heard(stage, app):
    """As Flower or another program sends it, which knows nothing of fair queues."""
    start(stage)
    block(stage)
    ids = app.double.queue("u", [{"args": [number]} for number in range(1200)])
    app.app.control.broadcast("revoke", {"task_id": ids[:-1], "terminate": False})
    eventually(lambda: waiting(stage) == 1, what="the end of what was revoked")
    some = {ids[0], ids[1198]}
    eventually(lambda: {app.app.AsyncResult(one).state for one in some} == {states.REVOKED})
    assert_revoked(app, ids[0], ids[1198])
    app.app.control.broadcast("terminate", {"task_id": ids[-1], "signal": "TERM"})
    eventually(lambda: waiting(stage) == 0, what="the end of the last one")
    stage.traces.open("busy")
    stage.wait_rest("doubling")
    assert len(stage.traces.runs()) == 1


def test_nobody_needs_to_run(stage, app):
    """Without a worker the caller takes it out; a worker that starts later never sees it."""
    one, two = app.double.queue("u", [{"args": [1]}, {"args": [2]}])
    app.app.AsyncResult(one).revoke()
    assert_revoked(app, one)
    assert waiting(stage) == 1
    start(stage)
    assert app.app.AsyncResult(two).get(timeout=PATIENCE) == 4
    stage.wait_rest("doubling")
    assert [run["id"] for run in stage.traces.runs()] == [two]


def test_the_broker_may_be_away(stage, app, caplog):
    """An item that waits is out all the same, after about a second at most, with a warning."""
    one, two = app.double.queue("u", [{"args": [1]}, {"args": [2]}])
    stage.broker.stop()
    begun = time.monotonic()
    assert app.app.control.revoke(one) is None
    assert app.app.control.revoke([two], reply=True, timeout=1) == []
    assert time.monotonic() - begun < 2 * AWAY_SECONDS
    assert caplog.text.count("no worker was told") == 2
    assert_revoked(app, one, two)
    assert waiting(stage) == 0


def test_a_broker_that_does_not_answer_is_given_up(stage, app, monkeypatch):
    """Sooner than a caller minds; a running item, which needs the broker, gives Celery's error."""
    first, waits = app.double.queue("u", [{"args": [1]}, {"args": [2]}])
    (lease,) = app.doubling.engine.lease(holder="test").items
    assert lease.item_id == first
    with Proxy((stage.broker.host, stage.broker.port)) as proxy:
        proxy.black_hole()
        monkeypatch.setattr(app.app.conf, "broker_write_url", proxy.url())
        begun = time.monotonic()
        with pytest.raises(OperationalError):
            app.app.control.revoke([waits, first])
        assert time.monotonic() - begun < 2 * AWAY_SECONDS
    assert_revoked(app, waits)
    assert app.doubling.engine.is_cancelled(first)
    app.doubling.purge("u")


def test_what_runs_goes_on_and_does_not_retry(stage, app):
    """Without `terminate`; a retry it asks for never runs, and the result is REVOKED."""
    start(stage, concurrency=2)
    options = {"gate": "one", "retries": 1}
    (item_id,) = app.double.queue("u", [{"args": [1], "kwargs": options}])
    stage.wait_runs(1)
    app.app.control.revoke(item_id)
    stage.traces.open("one")
    with pytest.raises(TaskRevokedError):
        app.app.AsyncResult(item_id).get(timeout=PATIENCE)
    stage.wait_rest("doubling")
    assert len(stage.traces.runs()) == 1


def test_what_runs_is_killed_and_does_not_come_back(stage, app):
    """`terminate=True`, together with what waits, in one call."""
    start(stage)
    busy = block(stage)
    ids = app.double.queue("u", [{"args": [1]}, {"args": [2]}])
    app.app.control.revoke([busy, ids[0]], terminate=True)
    assert app.app.AsyncResult(ids[1]).get(timeout=PATIENCE) == 4
    assert_revoked(app, busy, ids[0])
    stage.wait_rest("doubling")
    assert [run["id"] for run in stage.traces.runs()] == [busy, ids[1]]


def test_a_chord_hears_of_it(stage, app):
    """A revoked member ends the chord with an error, as a message of Celery's that is dropped."""
    start(stage)
    block(stage)
    member = app.double.s(2).set(partition_key="u", task_id="member")
    body = chord([app.double.s(1).set(partition_key="u"), member])(app.total.s())
    app.app.control.revoke("member")
    stage.traces.open("busy")
    with pytest.raises(Exception, match=r"member|revoked"):
        body.get(timeout=PATIENCE)
    stage.wait_rest("doubling")


def test_a_plain_task_is_revoked_as_ever(stage, app):
    """`revoke` of other ids neither waits nor returns anything."""
    start(stage)
    block(stage)
    result = app.increase.apply_async((1,))
    assert app.app.control.revoke(result.id) is None
    stage.traces.open("busy")
    with pytest.raises(TaskRevokedError):
        result.get(timeout=PATIENCE)


def test_an_answer_that_was_asked_for_is_returned(stage, app):
    """`reply=True` gives what Celery's gives."""
    worker = start(stage)
    (item_id,) = app.double.queue("u", [{"args": [1], "kwargs": {"gate": "busy"}}])
    stage.wait_runs(1)
    (answer,) = app.app.control.revoke(item_id, reply=True, limit=1, timeout=5)
    assert next(iter(answer)).startswith(worker.name)
    stage.traces.open("busy")
    stage.wait_rest("doubling")
