"""Results, links, chains, groups and chords of fair and plain tasks; revoking what runs."""

import pytest
from celery import chain, chord, group, states
from celery.exceptions import TaskRevokedError

from tests.callers import fair
from tests.stage import DISPATCHES, Stage
from tests.waiting import eventually

PATIENCE = 20


@pytest.fixture(scope="module", params=DISPATCHES)
def _stage(request, tmp_path_factory):
    """One worker for fair and plain tasks."""
    folder = tmp_path_factory.mktemp("canvas")
    with Stage("canvas", folder, dispatch=request.param) as stage:
        stage.worker = stage.start_worker(queues=["canvas-fair", "canvas-plain"], concurrency=2)
        stage.lasting = ("doubling", "collecting")
        yield stage


def numbers_of(stage):
    """What every run was given, in order of start."""
    return [run["args"][0] for run in stage.traces.runs()]


def test_the_result_is_under_the_item_id(stage, app):
    """With the name, the arguments and the state that plain Celery stores."""
    ids = app.double.queue("u", [{"args": [4]}, {"args": [5], "id": "five"}])
    assert ids[1] == "five"
    assert [app.app.AsyncResult(item_id).get(timeout=PATIENCE) for item_id in ids] == [8, 10]
    result = app.app.AsyncResult("five")
    assert (result.state, result.name, result.args) == (states.SUCCESS, app.double.name, [5])


def test_a_failure_has_its_traceback(stage, app):
    """The caller gets the exception; the item is acked."""
    (item_id,) = app.double.queue("u", [{"args": [-1]}])
    result = app.app.AsyncResult(item_id)
    with pytest.raises(ValueError, match="-1 is below zero"):
        result.get(timeout=PATIENCE)
    assert result.state == states.FAILURE
    assert "raise ValueError" in result.traceback
    assert len(stage.traces.runs()) == 1


def test_delay_needs_a_partition(app):
    """A call without one is refused where it is made."""
    with pytest.raises(ValueError, match="partition_key"):
        app.double.apply_async((1,), partition_key="")
    assert app.double.apply_async((1,), partition_key="u").get(timeout=PATIENCE) == 2


def test_links_are_called(stage, app):
    """Link of a success and link_error of a failure, of the item's id and result."""
    done = app.double.apply_async((3,), partition_key="u", link=[
        app.increase.s(), fair(app.double)])  # fmt: skip
    assert done.get(timeout=PATIENCE) == 6
    stage.wait_runs(3)
    assert sorted(numbers_of(stage)) == [3, 6, 6]

    failed = app.double.apply_async((-7,), partition_key="u", link_error=app.mourn.s())
    with pytest.raises(ValueError, match="-7"):
        failed.get(timeout=PATIENCE)
    mourned = eventually(lambda: stage.traces.client.lrange("mourned", 0, -1), what="the errback")
    assert mourned == [f"{failed.id} -7 is below zero"]


def test_a_chain_goes_through_fair_and_plain_tasks(stage, app):
    """Each gets the result of the one before; the fair ones run in their own partition."""
    result = chain(
        fair(app.double, 1, user="a"), app.increase.s(), fair(app.double, user="b"),
        fair(app.double, user="c"), app.increase.s(by=10),
    )()  # fmt: skip
    assert result.get(timeout=PATIENCE) == 22
    assert numbers_of(stage) == [1, 2, 3, 6, 12]
    assert [run["partition"] for run in stage.traces.runs()] == ["a", None, "b", "c", None]


def test_a_chain_goes_on_after_a_retry(stage, app):
    """The retried item still hands over to the next task, once."""
    result = chain(app.increase.s(1), fair(app.double, retries=2), app.increase.s())()
    assert result.get(timeout=PATIENCE) == 5
    assert numbers_of(stage) == [1, 2, 2, 2, 4]


def test_a_failure_ends_a_chain(stage, app):
    """What comes behind it doesn't run, and its result carries the error."""
    result = chain(fair(app.double, -2), app.increase.s(), fair(app.double))()
    with pytest.raises(ValueError, match="-2 is below zero"):
        result.get(timeout=PATIENCE)
    assert numbers_of(stage) == [-2]


def test_a_group_mixes_fair_and_plain_tasks(app):
    """Results come in the order of the group."""
    result = group(fair(app.double, 1), app.increase.s(1), fair(app.double, 5, user="v"))()
    assert result.get(timeout=PATIENCE) == [2, 2, 10]


@pytest.mark.parametrize("body", ["fair", "plain"])
def test_a_chord_mixes_fair_and_plain_tasks(stage, app, body):
    """The body runs once with every result, also when a task of the header was retried."""
    header = [
        fair(app.double, 1), app.increase.s(1), fair(app.double, 5, user="v", retries=1),
        fair(app.double, 10),
    ]  # fmt: skip
    last = fair(app.total) if body == "fair" else app.add_up.s()
    assert chord(header)(last).get(timeout=PATIENCE) == 34
    bodies = [number for number in numbers_of(stage) if isinstance(number, list)]
    assert bodies == [[2, 2, 10, 20]]


def test_a_failure_in_a_chord_reaches_the_caller(stage, app):
    """The body doesn't run; its result is the error."""
    result = chord([fair(app.double, 1), fair(app.double, -3)])(fair(app.total))
    with pytest.raises(Exception, match="-3 is below zero"):
        result.get(timeout=PATIENCE)
    stage.wait_rest("doubling")
    assert sorted(numbers_of(stage)) == [-3, 1]


def test_a_chain_of_groups(app):
    """A group in the middle of a chain becomes a chord with what follows."""
    result = chain(
        fair(app.double, 1), group(fair(app.double), app.increase.s()), fair(app.total),
        app.increase.s(),
    )()  # fmt: skip
    assert result.get(timeout=PATIENCE) == 8


def test_a_result_decides_the_partition_of_what_follows(stage, app):
    """`partition_by` is called with what the task is called with, in a chain and behind a chord."""
    result = chain(group(app.increase.s(1), fair(app.double, 2)), app.total.s(), app.increase.s())()
    assert result.get(timeout=PATIENCE) == 7
    assert "sum of 2" in [run["partition"] for run in stage.traces.runs()]


def test_a_running_item_that_is_revoked_does_not_run_again(stage, app):
    """revoke(terminate=True): its process dies, the item goes, and the slot serves the next one."""
    (item_id,) = app.double.queue("u", [{"args": [1], "kwargs": {"gate": "never"}}])
    stage.wait_runs(1)
    result = app.app.AsyncResult(item_id)
    result.revoke(terminate=True)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=PATIENCE)
    stage.wait_rest("doubling")
    ids = app.double.queue("u", [{"args": [number]} for number in range(4)])
    assert [app.app.AsyncResult(other).get(timeout=PATIENCE) for other in ids] == [0, 2, 4, 6]
    assert len(stage.traces.runs(item_id)) == 1


def test_a_waiting_item_that_is_revoked_does_not_run(stage, app):
    """The worker drops it when its turn comes."""
    fill = app.double.queue("u", [{"args": [1], "kwargs": {"gate": "full"}} for _ in range(2)])
    (item_id,) = app.double.queue("u", [{"args": [2]}])
    stage.wait_runs(2)
    app.app.control.revoke(item_id, reply=True, limit=1, timeout=5)
    stage.traces.open("full")
    with pytest.raises(TaskRevokedError):
        app.app.AsyncResult(item_id).get(timeout=PATIENCE)
    stage.wait_rest("doubling")
    assert {run["id"] for run in stage.traces.runs()} == set(fill)
