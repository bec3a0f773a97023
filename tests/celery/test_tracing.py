"""Tracing libraries, the real ones: the caller's trace goes on in the runs of its items."""

import itertools
import json
import subprocess
import sys

import pytest

from tests.stage import Stage
from tests.waiting import eventually
from tests.workers import APPS

LIBRARIES = {"otel": "opentelemetry.instrumentation.celery", "sentry": "sentry_sdk"}
RUNS = 11
"""Of ten items, one of which is retried."""


WAYS = [("prefork", "trigger"), ("threads", "direct"), ("gevent", "direct")]


@pytest.fixture(params=itertools.product(LIBRARIES, WAYS), ids=str)
def stage(request, tmp_path):
    """An app whose producer and worker are traced; eight items run at once."""
    library, (pool, dispatch) = request.param
    pytest.importorskip(LIBRARIES[library], reason="`make compat` installs no tracing libraries")
    with Stage("traced", tmp_path, dispatch=dispatch, TRACER=library) as stage:
        stage.start_worker(queues=["traced"], pool=pool, concurrency=8)
        yield stage


def produce(stage, gate=""):
    """Let a traced process enqueue in every way; what it printed."""
    command = [sys.executable, "traced.py"]
    env = {**stage.workers[-1].env, "GATE": gate}
    done = subprocess.run(command, cwd=APPS, env=env, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def seen(stage, count):
    """Wait for what so many runs have seen."""
    client = stage.traces.client
    eventually(lambda: client.llen("seen") >= count, 20, f"{count} runs")
    return [json.loads(text) for text in client.lrange("seen", 0, -1)]


def test_the_callers_trace_goes_on_in_the_run(stage):
    """The parent of a run is the span that published it, and that one's parent the caller's.

    Whichever way the item was made; runs that go on at the same time each see their own.
    """
    produced = produce(stage, gate="open")
    stage.wait_runs(5)
    stage.traces.open("open")
    runs = seen(stage, RUNS)
    stage.wait_rest("traced")
    made = produced["made"]
    assert produced["after"] == produced["here"]
    assert {run["item"] for run in runs} == set(itertools.chain(*made.values()))
    assert {run["before"]["trace"] for run in runs} == {produced["here"]["trace"]}
    assert all(run["before"] == run["after"] for run in runs)
    assert len({run["before"]["id"] for run in runs}) == RUNS
    for run in runs:
        if not run["retries"]:  # a retry is published by the run before it
            assert produced["spans"][run["before"]["parent"]] == produced["here"]["id"]
    told = {run["item"]: run["tenant"] for run in runs}
    for way, ids in made.items():  # the base's own `apply_async` is asked; `queue` is none
        assert {told[item_id] for item_id in ids} == {None if "queue" in way else "base"}
