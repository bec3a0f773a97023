"""Task events: what `celery events` and Flower show of items."""

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest
from celery.events.state import State

from tests.processes import spawn
from tests.stage import DISPATCHES, Stage
from tests.waiting import eventually
from tests.workers import APPS

PATIENCE = 20


@pytest.fixture(scope="module", params=DISPATCHES)
def _stage(request, tmp_path_factory):
    """One worker that sends events."""
    folder = tmp_path_factory.mktemp("events")
    with Stage("canvas", folder, dispatch=request.param) as stage:
        queues = ["canvas-fair", "canvas-plain"]
        stage.worker = stage.start_worker(queues=queues, concurrency=2, args=["-E"])
        yield stage


@pytest.fixture
def stage(_stage):
    """The stage without what earlier tests left; its events listen on."""
    _stage.redis.flushall()
    yield _stage
    _stage.wait_rest("doubling")


@pytest.fixture
def app(stage):
    return stage.app


@pytest.fixture
def heard(app):
    """Listen to events until the test ends; the list of them grows."""
    heard, ready, stop = [], threading.Event(), threading.Event()

    def listen():
        with app.app.connection() as connection:
            receiver = app.app.events.Receiver(connection, handlers={"*": heard.append})
            with receiver.consumer_context() as (listening, _, _):
                while not stop.is_set():
                    with contextlib.suppress(TimeoutError):
                        listening.drain_events(timeout=0.2)
                    ready.set()  # the first call has subscribed

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    assert ready.wait(5)
    yield heard
    stop.set()
    thread.join(5)


def events_of(heard, item_id, last):
    """Wait for the last event of an item; all of its events, in their order."""

    def find():
        mine = [event for event in heard if event.get("uuid") == item_id]
        return mine if last in [event["type"] for event in mine] else None

    return eventually(find, PATIENCE, f"{last} of {item_id}")


def types(events):
    """Their types, without Celery's prefix."""
    return [event["type"].removeprefix("task-") for event in events]


def test_events_of_a_success(heard, app):
    """Received with id, name and arguments, started, and succeeded with result and runtime."""
    (item_id,) = app.double.queue("u", [{"args": [3], "kwargs": {"retries": 0}}])
    events = events_of(heard, item_id, "task-succeeded")
    assert types(events) == ["received", "started", "succeeded"]
    received, _, succeeded = events
    assert (received["name"], received["args"]) == (app.double.name, "(3,)")
    assert received["kwargs"] == "{'retries': 0}"
    assert (received["root_id"], received["parent_id"]) == (item_id, None)
    assert succeeded["result"] == "6"
    assert 0 < succeeded["runtime"] < PATIENCE


def test_events_of_a_retry_and_a_failure(heard, app):
    """Each run is received and started under the same id, with its count of retries."""
    result = app.double.apply_async((-1,), {"retries": 1}, partition_key="u")
    events = events_of(heard, result.id, "task-failed")
    assert types(events) == ["received", "started", "retried", "received", "started", "failed"]
    assert [event["retries"] for event in events if "retries" in event] == [0, 1]
    assert events[5]["exception"] == "ValueError('-1 is below zero')"
    assert "raise ValueError" in events[5]["traceback"]


def test_events_of_what_is_revoked(heard, stage, app):
    """One that waits is revoked without ever being received; one that runs is terminated."""
    (runs,) = app.double.queue("u", [{"args": [1], "kwargs": {"gate": "closed"}}])
    later = app.double.apply_async((2,), partition_key="u", countdown=600).id
    stage.wait_runs(1)
    app.app.control.broadcast("revoke", {"task_id": [later], "terminate": False})
    assert types(events_of(heard, later, "task-revoked")) == ["revoked"]
    app.app.control.revoke(runs, terminate=True)
    events = events_of(heard, runs, "task-revoked")
    assert types(events) == ["received", "started", "revoked"]
    assert (events[2]["terminated"], events[2]["expired"]) == (True, False)


def test_celerys_own_view_shows_items(heard, app):
    """`celery events` keeps its state from them: name, arguments, state, worker, runtime."""
    (item_id,) = app.double.queue("u", [{"args": [3]}])
    state = State()
    for event in events_of(heard, item_id, "task-succeeded"):
        state.event(event)
    task = state.tasks[item_id]
    assert (task.name, task.args, task.state) == (app.double.name, "(3,)", "SUCCESS")
    assert task.runtime > 0
    assert task.worker.hostname


@pytest.fixture
def flower(stage, tmp_path):
    """The real Flower, on a port of its own; a function that asks its HTTP interface."""
    pytest.importorskip("flower", reason="`make compat` doesn't install it")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path / "flower.log"
    with log.open("wb") as output:
        process = spawn(
            [sys.executable, "-m", "celery", "-A", "canvas", "flower", "--address=127.0.0.1",
             f"--port={port}", "--inspect_timeout=1000"],
            cwd=APPS, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **stage.env, "FLOWER_UNAUTHENTICATED_API": "true"},
        )  # fmt: skip

    def ask(path, method="GET", **query):
        url = f"http://127.0.0.1:{port}/api/{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, method=method, data=b"" if method == "POST" else None)
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return json.load(reply)
        except urllib.error.URLError as error:
            raise AssertionError(f"{error}\n{log.read_text()}") from error

    try:
        eventually(lambda: ask("workers"), 30, "Flower's view of the worker")
        yield ask
    finally:
        process.kill()
        process.wait(10)


def test_flower_shows_items(flower, stage, app):
    """Name, arguments, state, result and runtime, as of any task; and it can revoke one."""
    numbers = itertools.count()

    def is_shown():
        (item_id,) = app.double.queue("u", [{"args": [next(numbers)]}])
        app.app.AsyncResult(item_id).get(timeout=PATIENCE)
        return item_id in flower("tasks")

    eventually(is_shown, PATIENCE, "Flower to listen")
    (done,) = app.double.queue("u", [{"args": [3], "kwargs": {"retries": 0}}])
    (failed,) = app.double.queue("u", [{"args": [-3]}])

    def shown(item_id, state):
        task = flower("tasks").get(item_id)
        return task if task and task["state"] == state else None

    task = eventually(lambda: shown(done, "SUCCESS"), PATIENCE, "the item in Flower")
    assert (task["name"], task["args"]) == (app.double.name, "(3,)")
    assert (task["kwargs"], task["result"]) == ("{'retries': 0}", "6")
    assert 0 < task["runtime"] < PATIENCE
    assert task["worker"].startswith(stage.worker.name)
    task = eventually(lambda: shown(failed, "FAILURE"), PATIENCE, "the failure in Flower")
    assert task["exception"] == "ValueError('-3 is below zero')"
    names = {task["name"] for task in flower("tasks").values()}
    assert not [name for name in names if name and name.startswith("vtrr_queue.")]
    assert flower("tasks", taskname=app.double.name, state="FAILURE").keys() == {failed}

    later = app.double.apply_async((2,), partition_key="u", countdown=600).id
    flower(f"task/revoke/{later}", "POST")
    eventually(lambda: app.app.AsyncResult(later).state == "REVOKED", PATIENCE, "Flower's revoke")
