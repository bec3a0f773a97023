"""The plugin in a user's project: one line in conftest.py, no server, no broker, no leftovers."""

import subprocess
import sys

import pytest

CONFTEST = 'pytest_plugins = ["vtrr_queue.testing"]\n'
APP = """
import redis
from celery import Celery
from vtrr_queue import VTRRQueue

app = Celery("shop", broker="redis://localhost:1/0")
vtrr = VTRRQueue(redis.Redis(port=1), app, name="files", max_backlog=3)

@vtrr.task
def process_file(self, path):
    return path.upper()
"""
TESTS = """
import pytest
from shop import process_file, vtrr
from vtrr_queue import BacklogFull
from vtrr_queue.testing import drain

@pytest.fixture(autouse=True)
def queue(vtrr_local):
    return vtrr_local(vtrr)

def test_turns():
    process_file.queue("acme", [{"args": ["a1"]}, {"args": ["a2"]}])
    process_file.queue("bolt", [{"args": ["b1"]}])
    assert [run.result for run in drain(vtrr)] == ["A1", "B1", "A2"]

@pytest.mark.parametrize("time", range(2))
def test_each_test_begins_empty(time):
    assert drain(vtrr) == []
    process_file.queue("acme", [{"args": ["left"]} for _ in range(3)])
    with pytest.raises(BacklogFull):
        process_file.queue("acme", [{"args": ["more"]}])

def test_a_clock_that_is_asked_for_late(request):
    clock = request.getfixturevalue("vtrr_clock")
    process_file.apply_async(["x"], partition_key="acme", countdown=60)
    assert drain(vtrr) == []
    clock.advance(60)
    assert [run.result for run in drain(vtrr)] == ["X"]

def test_dead_letters_and_the_inspector_follow(vtrr_redis):
    process_file.queue("acme", [{"args": [5]}])
    assert [run.state for run in drain(vtrr)] == ["FAILURE"]
    assert len(vtrr.dead) == 0
    assert vtrr.inspector.depth().waiting == 0

def test_what_is_no_queue_is_refused(vtrr_local):
    with pytest.raises(TypeError, match="queue must be a VTRRQueue"):
        vtrr_local("files")
"""
AFTER = """
import pytest
from shop import process_file, vtrr
from vtrr_queue import Unavailable

def test_without_the_fixture_the_queue_is_the_real_one():
    with pytest.raises(Unavailable):
        process_file.queue("acme", [{"args": ["x"]}])
"""


@pytest.fixture
def project(tmp_path):
    files = {"conftest.py": CONFTEST, "shop.py": APP, "test_a.py": TESTS, "test_b.py": AFTER}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.slow
def test_a_project_with_the_plugin(project):
    """Its tests pass in any order, warnings are errors, and its server ends with it."""
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=project, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert "7 passed" in ended.stdout, ended.stdout + ended.stderr
