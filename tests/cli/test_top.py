"""`top` in a real terminal: tmux draws it, and presses keys."""

import shutil
import subprocess
import sys
import time
from uuid import uuid4

import psutil
import pytest

from tests.waiting import eventually
from tests.workers import APPS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


class Terminal:
    """A tmux session of a server of its own.

    Args:
        command: What runs in it.
        env: Its environment.
        size: Columns and lines.
    """

    def __init__(self, command, env, size=(110, 30)):
        self._socket = f"vtrr-{uuid4().hex[:8]}"
        columns, lines = map(str, size)
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", lines, "-c",
                   str(APPS), *command, env=env)  # fmt: skip
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], check=False)

    def _tmux(self, *words, env=None):
        done = subprocess.run(
            ["tmux", "-L", self._socket, *words], env=env, check=True, capture_output=True,
            text=True,
        )  # fmt: skip
        return done.stdout

    @property
    def screen(self):
        return self._tmux("capture-pane", "-p")

    @property
    def pid(self):
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def press(self, key):
        self._tmux("send-keys", key)

    def has_ended(self):
        return self._tmux("display-message", "-p", "#{pane_dead}").strip() == "1"

    def wait_for(self, *texts):
        eventually(lambda: all(text in self.screen for text in texts), 20, f"{texts}")


@pytest.fixture
def top(flood, shell):
    """Top of the queue, every fifth of a second."""
    command = [sys.executable, "-m", "celery", "-A", "steered", "vtrr", "--queue", "files", "top",
               "--interval", "0.2"]  # fmt: skip
    env = {**shell.env, "TERM": "xterm-256color"}
    with Terminal(command, env) as terminal:
        terminal.wait_for("files: 31 waiting")
        yield terminal


def first_row(screen):
    """The first partition that is shown."""
    lines = screen.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("partition"))
    return lines[at + 1].split()


def test_it_shows_what_happens(top, flood):
    """The flood first, each change within a moment, in place."""
    assert first_row(top.screen)[:4] == ["large", "ready", "30", "0"]
    flood.app.act.queue("larger", [{}] * 40)
    eventually(lambda: first_row(top.screen)[:3] == ["larger", "ready", "40"])
    flood.app.files.pause("larger")
    eventually(lambda: first_row(top.screen)[1] == "paused")
    assert top.screen.count("partition ") == 1


def test_keys_sort_and_end_it(top):
    top.press("r")
    eventually(lambda: first_row(top.screen)[0] == "held-up")
    top.wait_for("by running")
    top.press("b")
    eventually(lambda: first_row(top.screen)[0] == "large")
    top.press("q")
    eventually(top.has_ended)


def test_ctrl_c_ends_it(top):
    top.press("C-c")
    eventually(top.has_ended)
    assert "Traceback" not in top.screen


@pytest.mark.parametrize("length", [26, 300])
def test_long_names_leave_room_for_the_numbers(flood, shell, length):
    """At 80 columns the names are cut, and no number."""
    name = "n" * length
    flood.app.files.hold(name, 11_000)
    flood.app.act.queue(name, [{}] * 1234)
    command = [sys.executable, "-m", "celery", "-A", "steered", "vtrr", "--queue", "files", "top"]
    with Terminal(command, {**shell.env, "TERM": "xterm-256color"}, (80, 24)) as terminal:
        terminal.wait_for("files: 1,265 waiting", "oldest")
        row = first_row(terminal.screen)
        assert row[0].startswith("n" * 12)
        assert row[1:3] == ["held", "in"]
        assert row[4] == "1,234"
        assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(row[1:])


@pytest.mark.alone
def test_it_takes_little_of_a_core(flood, shell):
    """Once a second, over five seconds of its own process time."""
    command = [sys.executable, "-m", "vtrr_queue.cli", "--redis",
               f"{flood.env['STATE_URL']}/0", "--name", "files", "top"]  # fmt: skip
    with Terminal(command, {**shell.env, "TERM": "xterm-256color"}) as terminal:
        terminal.wait_for("files: 31 waiting")
        process = psutil.Process(terminal.pid)
        started = process.cpu_times()
        until = time.monotonic() + 5
        eventually(lambda: time.monotonic() > until)
        used = process.cpu_times()
        share = (used.user + used.system - started.user - started.system) / 5
        print(f"{share:.1%} of a core")
        assert share < 0.1
