"""Workers of this release and of the one before drain one queue: the layout is the same."""

import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path
from signal import SIGKILL

import pytest

from tests.stage import DISPATCHES, Stage
from tests.waiting import eventually
from tests.workers import APPS
from vtrr_queue.model import NewItem

ROOT = Path(__file__).parents[2]
BEFORE = "dba61a8"
"""Last commit of the base system: it knows no heartbeat, no bounds, no notes in dead letters."""

DEEDS = ("work", "work", "work", "retry", "fail")
ITEMS = 150


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


def enqueue_as_before(stage, source, prefix, count):
    """Enqueue from a process that runs the release before."""
    code = (
        "import releases, sys\n"
        f"assert releases.vtrr_queue.__file__.startswith({str(source)!r})\n"
        f"deeds = {DEEDS!r}\n"
        f"releases.act.queue('before', [{{'id': f'{prefix}{{n}}', 'args': [deeds[n % 5]]}}"
        f" for n in range({count})])\n"
    )
    env = {
        **os.environ,
        **stage.env,
        "RELEASE": "before",
        "PYTHONPATH": os.pathsep.join((str(source), str(APPS))),
    }
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60)


def test_both_releases_drain_one_queue_without_loss(stage, release_before):
    """Both enqueue, both run, children and a worker of each are killed, dead letters are read."""
    ours = stage.start_worker(queues=["releases"], concurrency=2)
    env = {"RELEASE": "before", "PYTHONPATH": str(release_before)}
    old_env, stage.env = stage.env, stage.env | env
    theirs = stage.start_worker(queues=["releases"], concurrency=2)
    stage.env = old_env
    ids = {f"{prefix}{n}" for prefix in ("new", "old") for n in range(ITEMS)}
    calls = [{"id": f"new{n}", "args": [DEEDS[n % 5]]} for n in range(ITEMS)]
    stage.app.act.queue("this", calls)
    stage.app.vtrr.store("this", [NewItem(f"broken{n}", b"?") for n in range(6)])
    enqueue_as_before(stage, release_before, "old", ITEMS)
    for worker in (ours, theirs):
        eventually(lambda: stage.redis.zcard("vtrr:releases:inflight"), 20, "leases")
        os.kill(worker.children()[0], SIGKILL)
    stage.wait_rest("releases", 60)
    runs = stage.traces.runs()
    files = Counter(run["args"][1].startswith(str(release_before)) for run in runs)
    assert files[True] > 10, "the release before has taken part"
    assert files[False] > 10, "this release has taken part"
    assert {run["id"] for run in runs} == ids
    finished = Counter(stage.traces.ends())
    assert set(finished) == ids
    # Killed children only: what ran twice was counted.
    timeouts = Counter(run["id"] for run in runs if run["timeouts"])
    assert all(finished[item_id] <= 1 + timeouts[item_id] for item_id in ids)
    letters = {letter.item_id: letter for letter in stage.app.vtrr.dead.latest(1000)}
    assert {f"broken{n}" for n in range(6)} <= set(letters)
    failed = {item_id for item_id in letters if not item_id.startswith("broken")}
    assert all(letters[item_id].exception == "ValueError('as told')" for item_id in failed)
    assert failed <= {f"{prefix}{n}" for prefix in ("new", "old") for n in range(4, ITEMS, 5)}
    assert stage.app.vtrr.dead.drop_all() == len(letters)


def test_the_release_before_refuses_a_queue_whose_policies_it_does_not_know(stage, release_before):
    """It changes nothing; when the policies are gone it works on the queue again."""
    stage.app.vtrr.set_partition("this", cap=1)
    with pytest.raises(subprocess.CalledProcessError):
        enqueue_as_before(stage, release_before, "old", 1)
    assert not stage.redis.exists("vtrr:releases:task")
    stage.app.vtrr.clear_partition("this")
    enqueue_as_before(stage, release_before, "old", 1)
    assert stage.redis.hlen("vtrr:releases:task") == 1
