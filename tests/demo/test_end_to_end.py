"""The command as a user runs it: real server, real workers, real signals."""

import json
import socket
import sys
from signal import SIGINT, SIGTERM
from xml.etree import ElementTree as ET

import psutil
import pytest

from tests.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def closed_port():
    """A port of this machine on which nobody listens, held for the length of the test."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.parametrize("dispatch", ["trigger", "direct"])
def test_a_small_run_prints_the_table_and_leaves_nothing(
    start_demo,
    tmp_path,
    closed_port,
    dispatch,
):
    """Both lanes run every item, whatever broker the environment names, and all is cleaned up."""
    figures, picture = tmp_path / "figures.json", tmp_path / "picture.svg"
    demo = start_demo(
        *("--items", "60", "--small", "3", "--dispatch", dispatch),
        *("--json", str(figures), "--svg", str(picture)),
        CELERY_BROKER_URL=f"redis://127.0.0.1:{closed_port}/0",
    )
    assert demo.wait() == 0, demo.err
    for text in ("Waiting time", "median", "p95", "max", "flood", "acme", "all small", "Speed-up"):
        assert text in demo.out
    assert "\x1b" not in demo.out
    told = json.loads(figures.read_text())
    assert (told["items"], told["small"], told["dispatch"]) == (60, 3, dispatch)
    for lane in ("plain", "fair"):
        assert told[lane]["tenants"]["flood"]["count"] == 60
        assert told[lane]["small"]["count"] == 15
    assert ET.fromstring(picture.read_text()).tag.endswith("svg")
    demo.assert_nothing_left()


@pytest.mark.parametrize(("signum", "exit_code"), [(SIGINT, 130), (SIGTERM, 143)])
def test_a_signal_in_the_middle_ends_everything(start_demo, signum, exit_code):
    """Stopped while items run, the demo ends its server and its workers and says so."""
    demo = start_demo()
    demo.wait_for_output("flood in")
    commands = list(demo.family().values())
    for part in ("valkey-server", "plain@demo", "fair@demo"):
        assert any(part in command for command in commands), commands
    demo.process.send_signal(signum)
    assert demo.wait(20) == exit_code
    assert "Traceback" not in demo.err
    demo.assert_nothing_left()


def test_a_signal_during_the_start_ends_everything(start_demo):
    """Ctrl-C while the workers are still starting leaves nothing behind either."""
    demo = start_demo()
    demo.wait_for_output("starting")
    demo.process.send_signal(SIGINT)
    assert demo.wait(20) == 130
    demo.assert_nothing_left()


@pytest.mark.skipif(sys.platform != "linux", reason="needs the parent-death signal of Linux")
def test_a_killed_demo_leaves_no_process(start_demo):
    """Nobody can tidy up after SIGKILL, but server and workers die with the demo."""
    demo = start_demo()
    demo.wait_for_output("flood in")
    demo.process.kill()
    eventually(lambda: demo.family() == {}, what="no process left")


def test_a_dead_worker_is_a_failure_with_its_log(start_demo):
    """When a worker dies the demo fails at once, shows the logs and cleans up."""
    demo = start_demo()
    demo.wait_for_output("flood in")
    pids = [pid for pid, command in demo.family().items() if "plain@demo" in command]
    (worker,) = [pid for pid in pids if psutil.Process(pid).ppid() == demo.process.pid]
    psutil.Process(worker).kill()
    assert demo.wait(20) == 1
    assert "the plain worker ended with exit code -9" in demo.err
    assert "end of plain-worker.log" in demo.err
    assert "Ready to accept connections" in demo.err  # what a log says, here Valkey's
    demo.assert_nothing_left()


def test_a_run_that_takes_too_long_is_a_failure(start_demo):
    """A lane past its deadline ends the demo with the number of items that had run."""
    demo = start_demo("--timeout", "0.5")
    assert demo.wait() == 1
    assert "of 2100 items had run after 0.5 s" in demo.err
    demo.assert_nothing_left()
