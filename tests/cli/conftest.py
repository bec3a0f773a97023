"""A real app with a real worker, and commands as real processes."""

import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests.stage import Stage
from tests.waiting import eventually
from tests.workers import APPS

SLOTS = 2


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Shell:
    """Runs commands against the queues of a stage, as a person does.

    Args:
        stage: The app and its servers.
    """

    def __init__(self, stage):
        self.stage = stage
        self.env = {**os.environ, **stage.env, "PYTHONPATH": str(APPS)}

    def celery(self, *words, answer=None):
        """Run `celery -A steered vtrr ...`."""
        return self.run("celery", "-A", "steered", "vtrr", *words, answer=answer)

    def files(self, *words, answer=None):
        """The same with the queue `files` chosen."""
        return self.celery("--queue", "files", *words, answer=answer)

    def alone(self, *words, name="files"):
        """Run `vtrr --redis ... --name ...`, without the app."""
        url = f"{self.stage.env['STATE_URL']}/0"
        return self.run("vtrr_queue.cli", "--redis", url, "--name", name, *words)

    def run(self, module, *words, answer=None):
        """Run a module's command line; with an answer there is a terminal that gives it."""
        command = [sys.executable, "-m", module, *words]
        keyboard, terminal = pty.openpty()
        os.write(keyboard, f"{answer}\n".encode())
        try:
            done = subprocess.run(
                command, cwd=APPS, env=self.env, capture_output=True, text=True, timeout=30,
                stdin=subprocess.DEVNULL if answer is None else terminal, check=False,
            )  # fmt: skip
        finally:
            os.close(keyboard)
            os.close(terminal)
        return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """An app, its servers and a worker of two slots."""
    with Stage("steered", tmp_path_factory.mktemp("logs"), dispatch="direct") as stage:
        stage.start_worker(queues=["files", "mails"], pool="threads", concurrency=SLOTS)
        yield stage


@pytest.fixture(scope="module")
def shell(stage):
    return Shell(stage)


@pytest.fixture
def busy(stage):
    """Every slot is taken by an item of `held-up` until the test is over."""
    stage.clear()
    stage.app.act.queue("held-up", [{"args": ["wait"], "id": f"run{n}"} for n in range(SLOTS)])
    stage.wait_runs(SLOTS)
    yield stage
    stage.app.files.resume()
    stage.traces.open("open")
    eventually(lambda: stage.inflight("files") == 0, 30, "the end of what runs")
    stage.clear()


@pytest.fixture
def flood(busy):
    """Behind them a large partition, a small one, and a delayed item."""
    busy.app.act.queue("large", [{"id": f"large{n}"} for n in range(30)])
    busy.app.act.queue("small", [{"args": ["end"], "id": "small0", "weight": 2}])
    busy.app.act.apply_async(("end",), partition_key="small", countdown=3600, task_id="later")
    return busy
