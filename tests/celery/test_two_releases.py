"""A process of the release before, whose layout is another, and of this one meet on a queue."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.callers import snapshot
from tests.stage import DISPATCHES, Stage
from tests.workers import APPS
from vtrr_queue import SchemaMismatch
from vtrr_queue.keys import SCHEMA

ROOT = Path(__file__).parents[2]
BEFORE = "dba61a8"
"""Last commit of the base system, of layout 3."""

ITEMS = 20


@pytest.fixture(scope="module")
def release_before(tmp_path_factory):
    """Source folder of the release before, from the history of this repository."""
    git = ["git", "-C", str(ROOT), "cat-file", "-e", f"{BEFORE}^{{commit}}"]
    if subprocess.run(git, check=False, capture_output=True).returncode:
        pytest.skip("a copy without its history has no earlier release")
    folder = tmp_path_factory.mktemp("before")
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", BEFORE, "src"], check=True, capture_output=True
    )
    (folder / "src.tar").write_bytes(packed.stdout)
    with tarfile.open(folder / "src.tar") as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


@pytest.fixture(params=DISPATCHES)
def stage(request, tmp_path):
    with Stage("releases", tmp_path, dispatch=request.param) as opened:
        yield opened


def as_before(source):
    """Environment of a process of the release before."""
    return {"RELEASE": "before", "PYTHONPATH": os.pathsep.join((str(source), str(APPS)))}


def enqueue_as_before(stage, source, prefix, count):
    """Enqueue from a process that runs the release before."""
    code = (
        "import releases, sys\n"
        f"assert releases.vtrr_queue.__file__.startswith({str(source)!r})\n"
        f"releases.act.queue('before', [{{'id': f'{prefix}{{n}}', 'args': ['work']}}"
        f" for n in range({count})])\n"
    )
    env = os.environ | stage.env | as_before(source)
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60)


def test_a_worker_of_the_release_before_leaves_this_layout_alone(stage, release_before):
    """It says which layouts meet and takes nothing; this release runs every item."""
    stage.app.act.queue("this", [{"id": f"new{n}", "args": ["work"]} for n in range(ITEMS)])
    old_env, stage.env = stage.env, stage.env | as_before(release_before)
    theirs = stage.start_worker(queues=["releases"], concurrency=2)
    stage.env = old_env
    refused = f"have layout {SCHEMA}, this release needs layout 3"
    theirs.wait_for_log(refused, 20)
    assert stage.redis.hlen("vtrr:releases:task") == ITEMS
    stage.start_worker(queues=["releases"], concurrency=2)
    stage.wait_rest("releases", 60)
    runs = stage.traces.runs()
    assert {run["id"] for run in runs} == {f"new{n}" for n in range(ITEMS)}
    assert not [run for run in runs if run["args"][1].startswith(str(release_before))]


def test_this_release_leaves_the_layout_before_alone(stage, release_before):
    """Producers and workers of this release refuse it clearly; the one before drains it."""
    enqueue_as_before(stage, release_before, "old", ITEMS)
    kept = snapshot(stage.redis)
    ours = stage.start_worker(queues=["releases"], concurrency=2)
    refused = f"have layout 3, this release needs layout {SCHEMA}"
    ours.wait_for_log(refused, 20)
    with pytest.raises(SchemaMismatch, match=refused):
        stage.app.act.queue("this", [{"args": ["work"]}])
    assert snapshot(stage.redis) == kept


def test_the_release_before_produces_nothing_into_this_layout(stage, release_before):
    """Its `queue()` raises and the queue is as it was."""
    stage.app.act.queue("this", [{"id": "new", "args": ["work"]}])
    kept = snapshot(stage.redis)
    with pytest.raises(subprocess.CalledProcessError):
        enqueue_as_before(stage, release_before, "old", 1)
    assert snapshot(stage.redis) == kept
