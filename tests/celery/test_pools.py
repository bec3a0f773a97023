"""The same small suite on every pool of Celery, in both dispatch modes."""

import itertools
import time

import pytest
from celery import chain, chord, group, states
from celery.exceptions import TaskRevokedError

from tests.callers import fair
from tests.stage import DISPATCHES, Stage

PATIENCE = 20
POOLS = ("prefork", "threads", "gevent", "eventlet", "solo")


@pytest.fixture(scope="module", params=itertools.product(POOLS, DISPATCHES), ids="-".join)
def _stage(request, tmp_path_factory):
    """One worker of the pool for all tests."""
    pool, dispatch = request.param
    with Stage("canvas", tmp_path_factory.mktemp("pool"), dispatch=dispatch) as stage:
        stage.start_worker(queues=["canvas-fair", "canvas-plain"], pool=pool, concurrency=2)
        stage.slots = 1 if pool == "solo" else 2
        stage.lasting = ("doubling", "collecting")
        yield stage


def results(app, ids):
    """What items have returned."""
    return [app.app.AsyncResult(item_id).get(timeout=PATIENCE) for item_id in ids]


def test_many_items_run_once_each(stage, app):
    """With their results."""
    ids = [
        *app.double.queue("a", [{"args": [number]} for number in range(30)]),
        *app.double.queue("b", [{"args": [number]} for number in range(30)]),
    ]
    assert results(app, ids) == [2 * number for number in range(30)] * 2
    assert sorted(run["id"] for run in stage.traces.runs()) == sorted(ids)


def test_partitions_take_turns(stage, app):
    """Behind a backlog of one, a newcomer's item comes soon."""
    gates = [{"args": [0], "kwargs": {"gate": "full"}} for _ in range(stage.slots)]
    app.double.queue("a", gates)
    stage.wait_runs(stage.slots)
    last = app.double.queue("a", [{"args": [number]} for number in range(10)])[-1]
    app.double.queue("b", [{"args": [100]}])
    stage.traces.open("full")
    results(app, [last])
    started = [run["args"][0] for run in stage.traces.runs()]
    assert started.index(100) <= stage.slots * 2 + 1


def test_slots_are_used_at_once(stage, app):
    """As many items run together as the pool has slots."""
    ids = app.double.queue("a", [{"args": [1], "kwargs": {"gate": "all"}}] * stage.slots)
    stage.wait_runs(stage.slots)
    stage.traces.open("all")
    assert results(app, ids) == [2] * stage.slots


def test_an_error_is_the_result(stage, app):
    """With its traceback; the slot goes on."""
    result = app.double.apply_async((-1,), partition_key="u")
    with pytest.raises(ValueError, match="-1 is below zero"):
        result.get(timeout=PATIENCE)
    assert result.state == states.FAILURE
    assert "raise ValueError" in result.traceback
    assert len(stage.traces.runs()) == 1


def test_retries(stage, app):
    """Under the same id, until it returns."""
    result = app.double.apply_async((4,), {"retries": 2}, partition_key="u")
    assert result.get(timeout=PATIENCE) == 8
    assert [run["retries"] for run in stage.traces.runs(result.id)] == [0, 1, 2]


def test_a_countdown(stage, app):
    """It runs at its time."""
    due = time.time() + 1.0
    result = app.double.apply_async((4,), partition_key="u", countdown=1.0)
    assert result.get(timeout=PATIENCE) == 8
    (run,) = stage.traces.runs()
    assert due - 0.05 < run["at"] < due + 3


def test_canvas(app):
    """Chain, group and chord of fair and plain tasks."""
    assert chain(fair(app.double, 1), app.increase.s(), fair(app.double))().get(PATIENCE) == 6
    assert group(fair(app.double, 1), app.increase.s(1))().get(PATIENCE) == [2, 2]
    body = chord([fair(app.double, 1), app.increase.s(1)])(fair(app.total))
    assert body.get(timeout=PATIENCE) == 4


def test_a_waiting_item_is_revoked(stage, app):
    """It never runs."""
    later = app.double.apply_async((1,), partition_key="u", countdown=600)
    later.revoke()
    with pytest.raises(TaskRevokedError):
        later.get(timeout=PATIENCE)
    assert stage.traces.runs() == []
