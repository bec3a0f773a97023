"""Every Python block of README and docs runs, with the workers that its page starts."""

import contextlib
import os
import subprocess
import sys

import pytest

from tests.docs.blocks import pages, read_page
from tests.servers import Server
from tests.waiting import eventually
from tests.workers import Worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
OTHERWISE = {"django.md", "metrics.md", "testing.md", "tutorial.md", "web.md"}
"""Pages that tests of their own run."""


@pytest.fixture
def server():
    """A server of this test alone."""
    with Server() as private:
        yield private


def doc_worker(arguments, folder, env):
    """Make the worker of a command, with a small pool."""
    module, _, *rest = arguments
    return Worker(module, log_path=folder / f"{module}.log", cwd=folder, env=env, args=rest,
                  concurrency=1)  # fmt: skip


def waiting_items(server):
    """Names of queues in which something waits or runs."""
    with server.client(1) as client:
        return [key.decode() for key in client.scan_iter("vtrr:*:task")]


def run(folder, env, *arguments):
    """Run Python in the folder of a page; warnings are errors."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("name", [name for name in pages() if name not in OTHERWISE])
def test_the_blocks_of_a_page_run(server, tmp_path, name):
    """Modules are imported, workers started, the script runs, and workers do what it enqueued."""
    page = read_page(pages()[name])
    page.write(tmp_path, f"{server.host}:{server.port}")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for module in page.modules:
        run(tmp_path, env, "-c", f"import {module.removesuffix('.py').replace('/', '.')}")
    with contextlib.ExitStack() as stack:
        workers = [doc_worker(words, tmp_path, env) for words in page.workers]
        for worker in workers:
            stack.enter_context(worker)
        run(tmp_path, env, "the_script.py")
        served = {f"vtrr:{queue}:task" for queue in ("files", "letters", "thumbnails", "videos")}
        eventually(lambda: not served & set(waiting_items(server)), 20, "the workers' work")
        assert not workers or any("succeeded in" in worker.log() for worker in workers)
        for worker in workers:
            assert "Traceback" not in worker.log()
            assert "ERROR" not in worker.log()


def test_no_block_is_left_out():
    """A block that can't run says why; those that need another server are tested elsewhere."""
    left_out = {name: read_page(path).left_out for name, path in pages().items()}
    elsewhere = ["needs a cluster", "needs certificates", *["a command of the server"] * 2]
    assert {name: reasons for name, reasons in left_out.items() if reasons} == {
        "deployment.md": elsewhere
    }


def test_pages_with_code_are_found():
    assert {"README.md", "recipes.md", "django.md"} <= set(pages())
