"""Options of a task and of a call that say how it is stored, and where its result goes."""

import importlib

import pytest
from celery import states

from tests.callers import define, lease_all, make_app, make_queue
from tests.stage import Stage
from tests.waiting import eventually
from vtrr_queue import ArgumentError
from vtrr_queue.model import NewItem
from vtrr_queue.payload import decode

CALLS_DECIDE = hasattr(importlib.import_module("celery.app.task"), "get_actual_ignore_result")
"""Older Celery lets no call ask for its result, and forgets in a retry that one does not."""

PATIENCE = 20
LONG = "long " * 1000


@pytest.fixture
def open_stage(dispatch, tmp_path):
    """Start an app with options, and its worker."""
    stages = []

    def open_stage(backend="redis", **env):
        stage = Stage("results", tmp_path, dispatch=dispatch, BACKEND=backend, **env)
        stages.append(stage)
        stage.start_worker(queues=["vtrr_queue"], concurrency=1)
        return stage

    yield open_stage
    for stage in stages:
        stage.wait_rest("results")
        stage.__exit__()


def test_an_ignored_result_is_not_kept(open_stage):
    """By option of the task; a call may ask for its result all the same."""
    stage = open_stage(TASK={"ignore_result": True})
    work, app = stage.app.work, stage.app.app
    ids = work.queue("p", [{"args": [1]}])
    ids.append(work.apply_async((2,), partition_key="p").id)
    kept = work.apply_async((3,), partition_key="p", ignore_result=False)
    if CALLS_DECIDE:
        assert kept.get(timeout=PATIENCE) == 3
    stage.wait_rest("results")
    assert {app.AsyncResult(item_id).state for item_id in ids} == {states.PENDING}
    assert len(stage.traces.runs()) == 3


def test_a_call_may_ignore_its_result(open_stage):
    """The retry of that call as well."""
    stage = open_stage()
    work, app = stage.app.work, stage.app.app
    retry = {"retry": CALLS_DECIDE}
    ignored = work.apply_async((1,), retry, partition_key="p", ignore_result=True)
    stage.wait_runs(1 + CALLS_DECIDE)
    assert work.apply_async((2,), partition_key="p").get(timeout=PATIENCE) == 2
    stage.wait_rest("results")
    assert app.AsyncResult(ignored.id).state != states.SUCCESS


@pytest.mark.parametrize("env", [{"TASK": {"track_started": True}},
                                 {"CONF": {"task_track_started": True}}])  # fmt: skip
def test_a_start_is_tracked(open_stage, env):
    """STARTED is the state while it runs, with the process that runs it."""
    stage = open_stage(**env)
    result = stage.app.work.apply_async((1, "gate"), partition_key="p")
    eventually(lambda: result.state == states.STARTED, PATIENCE, "STARTED")
    assert result.info["pid"] in stage.workers[0].children()
    stage.traces.open("gate")
    assert result.get(timeout=PATIENCE) == 1


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "lzma"])
def test_a_call_is_compressed(open_stage, compression):
    """By an option of the task or of the call; the function gets what was given, retried too."""
    stage = open_stage(TASK={"compression": compression})
    work = stage.app.work
    (item_id,) = work.queue("p", [{"args": [LONG]}])
    assert stage.app.app.AsyncResult(item_id).get(timeout=PATIENCE) == LONG
    other = work.apply_async((LONG,), {"retry": True}, partition_key="p", compression="zlib")
    assert other.get(timeout=PATIENCE) == LONG


def test_a_serializer_of_the_call(open_stage):
    """Pickle carries what JSON can't, where the app accepts it; a retry keeps to the task's."""
    accepted = {"accept_content": ["json", "pickle"], "result_serializer": "pickle",
                "result_accept_content": ["json", "pickle"]}  # fmt: skip
    stage = open_stage(CONF=accepted, C_FORCE_ROOT="1")
    value = {1: (2, 3), "set": {4}}
    result = stage.app.work.apply_async((value,), partition_key="p", serializer="pickle")
    assert result.get(timeout=PATIENCE) == value


def test_a_result_that_is_sent_as_a_message(open_stage):
    """Celery's rpc backend: the caller's own queue gets the results, of each way to enqueue."""
    stage = open_stage("rpc")
    work, app = stage.app.work, stage.app.app
    one = work.apply_async((1,), partition_key="p")
    (item_id,) = work.queue("p", [{"args": [2], "kwargs": {"retry": True}}])
    assert one.get(timeout=PATIENCE) == 1
    assert app.AsyncResult(item_id).get(timeout=PATIENCE) == 2
    failed = work.apply_async((), partition_key="p")
    with pytest.raises(TypeError, match="value"):
        failed.get(timeout=PATIENCE)


def stored(redis_client, call, *, conf=None, **options):
    """What a call stores."""
    vtrr = make_queue(redis_client, app=make_app(**conf or {}))
    call(define(vtrr, default_partition="p", **options))
    (lease,) = lease_all(vtrr)
    return lease.body, decode(lease.body)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (lambda work: work.apply_async((LONG,), compression="zlib"), {}),
        (lambda work: work.delay(LONG), {"compression": "zlib"}),
        (lambda work: work.queue("p", [{"args": [LONG]}]), {"compression": "zlib"}),
        (lambda work: work.delay(LONG), {"conf": {"task_compression": "zlib"}}),
    ],
)
def test_what_is_stored_is_small(redis_client, call, given):
    """Compressed in Redis; whoever reads the payload sees the arguments."""
    body, payload = stored(redis_client, call, **given)
    assert len(body) < len(LONG) / 10
    assert payload.headers["compression"] == "application/x-gzip"
    assert payload.call() == ([LONG], {})


def test_an_unknown_compression_is_refused(redis_client):
    """By name, in the decorator and in a call; nothing is stored."""
    vtrr = make_queue(redis_client)
    with pytest.raises(ArgumentError, match=r"compression must be .*gzip.*, not 'zap'"):
        define(vtrr, compression="zap")
    work = define(vtrr, default_partition="p")
    with pytest.raises(ArgumentError, match=r"compression must be .*gzip.*, not 'zap'"):
        work.apply_async(compression="zap")
    assert redis_client.dbsize() == 0


def test_what_cannot_be_decompressed_is_a_dead_letter(redis_client):
    """With its reason."""
    vtrr = make_queue(redis_client)
    work = define(vtrr, default_partition="p")
    work.apply_async(task_id="i", headers={"mark": "x"})
    (lease,) = lease_all(vtrr)
    vtrr.ack("i", lease.token)
    broken = lease.body.replace(b'"mark":"x"', b'"compression":"application/x-gzip"')
    vtrr.store("p", [NewItem("i", broken)])
    assert vtrr._dequeue() is None
    assert vtrr.dead.latest()[0].item_id == "i"
