"""Tests that must be alone are alone among the processes of a parallel run."""

import fcntl
import subprocess
import sys

import pytest

from tests.turns import turn
from tests.waiting import eventually

TAKE = """
import sys
from pathlib import Path
from tests.turns import turn
folder, word, name = sys.argv[1:]
with turn(Path(folder), alone=word == "alone"):
    print(name, "begins", flush=True)
    sys.stdin.readline()
print(name, "ended", flush=True)
"""


@pytest.fixture
def start(tmp_path, request):
    """Start processes that take a turn, tell in a file, and end it when their input is closed."""
    folder, root = tmp_path / "turns", request.config.rootpath
    folder.mkdir()
    processes = []

    def start(name, word):
        with (tmp_path / name).open("wb") as told:
            process = subprocess.Popen(
                [sys.executable, "-c", TAKE, str(folder), word, name],
                stdin=subprocess.PIPE, stdout=told, cwd=root,
            )  # fmt: skip
        processes.append(process)
        process.has_begun = lambda: "begins" in (tmp_path / name).read_text()
        return process

    start.folder = folder
    yield start
    for process in processes:
        process.kill()
        process.stdin.close()
        process.wait()


def test_many_have_a_turn_at_a_time(start):
    first, second = start("first", "any"), start("second", "any")
    eventually(lambda: first.has_begun() and second.has_begun(), what="both turns")


def test_one_that_must_be_alone_waits_for_all_and_is_not_overtaken(start):
    first = start("first", "any")
    eventually(first.has_begun, what="the first turn")
    alone = start("alone", "alone")
    eventually(lambda: is_locked(start.folder / "gate"), what="its wait at the gate")
    later = start("later", "any")
    assert not alone.has_begun()
    first.stdin.close()
    eventually(alone.has_begun, what="the turn alone")
    assert not later.has_begun()
    alone.stdin.close()
    eventually(later.has_begun, what="the later turn")


def test_a_process_that_dies_gives_up_its_turn(start):
    alone = start("alone", "alone")
    eventually(alone.has_begun, what="the turn alone")
    alone.kill()
    with turn(start.folder, alone=True):
        pass


def is_locked(path):
    """Whether some process holds the lock."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
