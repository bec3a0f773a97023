"""What Celery tells of a run: results and their handles, signals, ids of a workflow, map."""

import itertools
import json

import pytest
from celery import chain, chord, group, states
from celery.result import GroupResult

from tests.callers import fair
from tests.stage import DISPATCHES, Stage
from tests.waiting import eventually

PATIENCE = 20


@pytest.fixture(scope="module", params=DISPATCHES)
def _stage(request, tmp_path_factory):
    """One worker for fair and plain tasks."""
    folder = tmp_path_factory.mktemp("results")
    with Stage("canvas", folder, dispatch=request.param) as stage:
        stage.worker = stage.start_worker(queues=["canvas-fair", "canvas-plain"], concurrency=2)
        stage.lasting = ("doubling", "collecting")
        yield stage


def ids(stage, item_id):
    """What a run knew of its place in a workflow."""
    return json.loads(stage.traces.client.hget("ids", item_id))


def signals_of(stage, item_id, count):
    """Wait for so many signals of an item; mapping signal -> what it said, and their order."""

    def find():
        said = [json.loads(text) for text in stage.traces.client.lrange("signals", 0, -1)]
        mine = [one for one in said if one["id"] == item_id]
        assert len(mine) >= count, [one["signal"] for one in mine]
        return mine

    said = eventually(find, what=f"{count} signals of {item_id}")
    return {one["signal"]: one for one in said}, [one["signal"] for one in said]


def test_delay_runs_and_has_a_result(app):
    """A task that knows whose turn a call uses needs nothing but its arguments."""
    assert app.total.delay([1, 2, 3]).get(timeout=PATIENCE) == 6
    assert app.total.s([4, 5]).delay().get(timeout=PATIENCE) == 9


def test_a_result_has_all_that_celery_keeps(stage, app):
    """Name, arguments, worker, queue, count of retries, and when it ended."""
    result = app.double.apply_async((3,), {"retries": 1}, partition_key="u")
    assert result.get(timeout=PATIENCE) == 6
    assert (result.name, result.args, result.kwargs) == (app.double.name, [3], {"retries": 1})
    assert (result.retries, result.queue) == (1, "canvas-fair")
    assert result.worker.startswith(stage.worker.name)
    assert result.date_done is not None
    assert result.parent is None


def test_a_result_is_forgotten(app):
    """`.forget()` takes it out of the backend, of one item and of a group."""
    result = app.double.apply_async((3,), partition_key="u")
    assert result.get(timeout=PATIENCE) == 6
    result.forget()
    assert app.app.AsyncResult(result.id).state == states.PENDING

    together = group(fair(app.double, 1), fair(app.double, 2))()
    assert together.get(timeout=PATIENCE) == [2, 4]
    together.forget()
    assert {app.app.AsyncResult(one.id).state for one in together} == {states.PENDING}


def test_a_group_result_is_saved_and_restored(app):
    """By its id, in another process as well; it counts what is done and what failed."""
    together = group(fair(app.double, 1), app.increase.s(1), fair(app.double, -1))()
    together.save()
    found = GroupResult.restore(together.id, app=app.app)
    eventually(found.ready, PATIENCE, "the group's end")
    assert (found.completed_count(), found.failed(), found.successful()) == (2, True, False)
    assert [one.id for one in found.results] == [one.id for one in together.results]
    found.delete()
    assert GroupResult.restore(together.id, app=app.app) is None


def test_a_chain_knows_its_parents(stage, app):
    """`.parent` of the result, and the root and parent ids that every run is told."""
    last = chain(app.increase.s(1), fair(app.double), app.increase.s(), fair(app.double))()
    assert last.get(timeout=PATIENCE) == 10
    links = [last, last.parent, last.parent.parent, last.parent.parent.parent]
    assert links[3].parent is None
    root = links[3].id
    for child, parent in itertools.pairwise(links):
        told = ids(stage, child.id)
        assert (told["root"], told["parent"]) == (root, parent.id)


def test_a_root_is_its_own(stage, app):
    """An item that nobody's run has made has its own id as root, and no parent."""
    (item_id,) = app.double.queue("u", [{"args": [1]}])
    app.app.AsyncResult(item_id).get(timeout=PATIENCE)
    assert ids(stage, item_id) == {"root": item_id, "parent": None, "group": None, "mark": None}


def test_an_item_made_by_a_run_has_it_as_parent(stage, app):
    """Also when a plain task has made it."""
    parent = app.spawn.delay(4)
    child = parent.get(timeout=PATIENCE)
    assert app.app.AsyncResult(child).get(timeout=PATIENCE) == 8
    assert (ids(stage, child)["root"], ids(stage, child)["parent"]) == (parent.id, parent.id)


def test_the_tasks_of_a_group_share_its_id(stage, app):
    """And those of a chord's header; the body comes after them."""
    together = group(fair(app.double, 1), app.increase.s(1))()
    together.get(timeout=PATIENCE)
    assert {ids(stage, one.id)["group"] for one in together} == {together.id}

    body = chord([fair(app.double, 1), fair(app.double, 2)])(fair(app.total))
    assert body.get(timeout=PATIENCE) == 6
    assert {ids(stage, one.id)["group"] for one in body.parent} == {body.parent.id}


def test_a_header_of_ones_own_reaches_the_function(stage, app):
    """As an attribute of the request, in the retry as well."""
    result = app.double.apply_async((1,), {"retries": 1}, partition_key="u", headers={"mark": "me"})
    assert result.get(timeout=PATIENCE) == 2
    assert ids(stage, result.id)["mark"] == "me"


def test_signals_of_a_success(stage, app):
    """All of them have the item's id, its arguments and the task's name."""
    (item_id,) = app.double.queue("u", [{"args": [3], "kwargs": {"retries": 0}}])
    said, order = signals_of(stage, item_id, 4)
    assert order == ["received", "prerun", "success", "postrun"]
    assert {one["name"] for one in said.values()} == {app.double.name}
    assert {tuple(one["args"]) for one in said.values()} == {(3,)}
    assert said["prerun"]["kwargs"] == said["postrun"]["kwargs"] == {"retries": 0}
    assert (said["prerun"]["request"], said["postrun"]["state"]) == (item_id, states.SUCCESS)


def test_signals_of_a_retry_and_a_failure(stage, app):
    """The item is received, retried, received again, and fails."""
    result = app.double.apply_async((-4,), {"retries": 1}, partition_key="u")
    said, order = signals_of(stage, result.id, 8)
    once = ["received", "prerun"]
    assert order == [*once, "retry", "postrun", *once, "failure", "postrun"]
    assert {tuple(one["args"]) for one in said.values()} == {(-4,)}
    assert said["failure"]["error"] == "-4 is below zero"


def test_one_limit_of_retries_one_error(stage, app):
    """MaxRetriesExceededError is the item's result, and `task_failure` tells it once."""
    result = app.double.apply_async((1,), {"retries": 9}, partition_key="u")
    with pytest.raises(app.double.celery_task.MaxRetriesExceededError):
        result.get(timeout=PATIENCE)
    _, order = signals_of(stage, result.id, 16)
    assert (order.count("retry"), order.count("failure")) == (3, 1)


def test_map_runs_in_one_plain_task(stage, app):
    """map, starmap and chunks call the function, as Celery's do; no item is made."""
    assert app.double.map([1, 2, 3]).delay().get(timeout=PATIENCE) == [2, 4, 6]
    assert app.double.starmap([(4,), (5,)]).delay().get(timeout=PATIENCE) == [8, 10]
    parts = app.double.chunks([(1,), (2,), (3,)], 2).group().apply_async()
    assert parts.get(timeout=PATIENCE) == [[2, 4], [6]]
    assert {run["partition"] for run in stage.traces.runs()} == {None}


def test_a_map_in_a_chain(app):
    """Between fair tasks it is one more step."""
    steps = chain(app.double.map([1, 2]), app.total.s(), fair(app.double))
    assert steps().get(timeout=PATIENCE) == 12


def test_a_chord_of_chains_and_groups(app):
    """Canvas may be nested, with fair tasks anywhere in it."""
    header = [
        chain(fair(app.double, 1), app.increase.s()), fair(app.double, 5),
        chain(app.increase.s(1), fair(app.double, user="v")),
    ]  # fmt: skip
    body = chain(fair(app.total), fair(app.double), app.increase.s())
    assert chord(header)(body).get(timeout=PATIENCE) == 35
