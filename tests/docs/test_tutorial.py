"""The tutorial, followed step by step: what its commands print is what it shows."""

import os
import re
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, read_page
from tests.servers import Server
from tests.waiting import eventually
from tests.workers import Worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
PATH = ROOT / "docs" / "tutorial.md"
PAGE = read_page(PATH)
FILES = {f"acme-{n}" for n in range(1, 21)}


class Newcomer:
    """Somebody with two terminals in the folder of the tutorial."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        self.env = {**os.environ, "PYTHONPATH": str(folder)}
        PAGE.write(folder, f"{server.host}:{server.port}")

    def worker(self, log):
        """Return a worker of the first terminal, started as the page says."""
        (module, _, *rest) = PAGE.workers[0]
        return Worker(module, log_path=self.folder / log, cwd=self.folder, env=self.env, args=rest)

    def python(self, *arguments):
        """Type into the second terminal and return what was printed."""
        ended = subprocess.run(
            [sys.executable, "-W", "error", *arguments], cwd=self.folder, env=self.env,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def done(self):
        """Return what the functions have done, in order."""
        with self.server.client(1, decode_responses=True) as client:
            return client.lrange("done", 0, -1)


@pytest.fixture
def newcomer(tmp_path):
    """A newcomer with a server of their own."""
    with Server() as server:
        yield Newcomer(server, tmp_path)


def shown(command):
    """What the page shows below a command."""
    found = re.search(
        rf"^\$ {re.escape(command)}\n(.*?)^```$", PATH.read_text(), re.MULTILINE | re.DOTALL
    )
    return found[1]


def typed(start):
    """The Python of a command that the page has typed into a shell."""
    return re.search(rf'^\$ python -c "({re.escape(start)}.*)"$', PATH.read_text(), re.MULTILINE)[1]


@pytest.mark.alone
def test_the_order_is_what_the_page_shows(newcomer):
    """Plain Celery serves acme first; the fair queue lets them take turns; weights count."""
    with newcomer.worker("order.log"):
        assert newcomer.python("race.py", "plain") == shown("python race.py plain")
        # Bolt comes a moment after acme; on a machine that is held up, in the second turn.
        races = (newcomer.python("race.py", "fair") for _ in range(3))
        assert any(race == shown("python race.py fair") for race in races)
        newcomer.python("weights.py")
        expected = re.search(r"^# (acme-huge .*)$", PATH.read_text(), re.MULTILINE)[1].split()
        eventually(lambda: newcomer.done() == expected, 10, "the order by weight")


def test_a_killed_worker_loses_nothing(newcomer):
    """Every file is done by the next worker, and the look inside works as shown."""
    with newcomer.worker("first.log") as first:
        newcomer.python("-c", typed("from tutorial import client, fair; client.delete"))
        eventually(lambda: len(newcomer.done()) >= 2, 10, "the first items")
        first.kill_group()
    assert set(newcomer.done()) < FILES
    with newcomer.worker("second.log"):
        eventually(lambda: set(newcomer.done()) == FILES, 20, "all items")
        assert len(newcomer.done()) - len(FILES) in {0, 1}
        eventually(lambda: "0 wait, 0 run" in newcomer.python("the_script.py"), 10, "the end")
        assert "warning no-aof" in newcomer.python("the_script.py")


def test_every_file_of_the_page_is_used():
    """The page has no file that this test does not run."""
    assert set(PAGE.modules) == {"tutorial.py", "race.py", "weights.py"}
