"""`web` and `exporter` serve the queues of an app, or of an address, until they are stopped."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest

from tests.waiting import eventually

pytestmark = pytest.mark.slow


@contextmanager
def served(shell, *words):
    """The command under way; afterwards it must end by itself when it is told to."""
    with subprocess.Popen([sys.executable, "-m", *words], env=shell.env) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(20)
        assert code in {0, -signal.SIGTERM}


def page(port, path):
    """What is answered at a path, once the server is up."""

    def fetch():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
                return reply.read().decode()
        except OSError:
            return None

    return eventually(fetch, 30, f"an answer at {path}")


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def words_for(shell, with_app):
    """The start of a command line, with the app or without."""
    if with_app:
        return ["celery", "-A", "steered", "vtrr"]
    url = f"{shell.stage.env['STATE_URL']}/0"
    return ["vtrr_queue.cli", "--redis", url, "--name", "files"]


@pytest.mark.parametrize("with_app", [True, False], ids=["app", "alone"])
def test_the_exporter(shell, port, with_app):
    words = [*words_for(shell, with_app), "exporter", "--port", str(port)]
    with served(shell, *words):
        assert re.search(r'^vtrr_queue_\w+\{.*queue="files"', page(port, "/metrics"), re.MULTILINE)


def served_queues(port):
    return set(re.findall(r'queue="(\w+)"', page(port, "/metrics")))


@pytest.mark.parametrize(
    ("words", "names"),
    [(["--name", "mails"], ["mails"]), (["--queue=files"], ["files"]), ([], ["files", "mails"]),
     (["--name", "mails", "--name", "files"], ["files", "mails"])], ids=str,
)  # fmt: skip
def test_a_name_behind_the_command_chooses_the_queue(shell, port, words, names):
    """Of an app; without one all are served, with several these."""
    start = words_for(shell, with_app=True)
    with served(shell, *start, "exporter", "--port", str(port), *words):
        assert served_queues(port) == set(names)


@pytest.mark.parametrize("command", ["exporter", "web"])
def test_a_queue_that_the_app_does_not_have_is_named(shell, command):
    ran = shell.celery(command, "--name", "bogus")
    assert (ran.code, ran.out) == (2, "")
    assert "'files', 'mails', not 'bogus'" in ran.err


def test_an_address_behind_the_command(shell, port):
    """It is taken instead of the app, however it is written."""
    url = f"--redis={shell.stage.env['STATE_URL']}/0"
    words = ["exporter", url, "--name", "other", "--port", str(port)]
    with served(shell, *words_for(shell, with_app=True), *words):
        assert served_queues(port) == {"other"}


@pytest.mark.parametrize("with_app", [True, False], ids=["app", "alone"])
def test_the_page(shell, port, with_app):
    words = [*words_for(shell, with_app), "web", "--port", str(port)]
    with served(shell, *words):
        assert "<!doctype html>" in page(port, "/").lower()


def test_wrong_options_are_named(shell):
    ran = shell.celery("exporter", "--prot", "1")
    assert ran.code == 2
    assert "--prot" in ran.err
