"""Who did what with the page can be read in a log, alone and inside a site."""

import contextlib
import os
import sys

import httpx
import pytest

from tests.docs.blocks import ROOT, read_page
from tests.processes import spawn
from tests.servers import free_port
from tests.waiting import eventually
from tests.web.serving import TOKEN
from tests.web.test_app import HEADERS, PAUSE, answer_of

ALONE = ["-m", "vtrr_queue.web", "--name", "files"]
MODULES = {
    "tasks.py": "import redis\nfrom vtrr_queue.engine import Engine\n"
                "vtrr = Engine(redis.Redis.from_url('{url}'), 'files')\n",
    "logged_site.py": "from starlette.applications import Starlette\n"
               "from starlette.routing import Mount\nimport logs\nfrom tasks import vtrr\n"
               "from vtrr_queue.web import create_app\n"
               "site = Starlette(routes=[Mount('/vtrr', create_app(vtrr, token={token!r}))])\n",
}  # fmt: skip


@pytest.fixture
def running(server, tmp_path):
    """Run Python with more arguments on a free port; returns its address and its log."""
    with contextlib.ExitStack() as stack:

        def start(*arguments, path="/"):
            port, log = free_port(), tmp_path / "log"
            env = os.environ | {"PYTHONPATH": str(tmp_path), "VTRR_WEB_TOKEN": TOKEN,
                                "VTRR_REDIS_URL": server.url()}  # fmt: skip
            with log.open("wb") as out:
                process = spawn([sys.executable, *arguments, "--port", str(port)], cwd=tmp_path,
                                env=env, stdout=out, stderr=out)  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.kill)
            url = f"http://127.0.0.1:{port}{path}"
            eventually(lambda: answer_of(url), 20, "the page answers")
            return url, log

        yield start


def do_and_be_refused(url):
    """One action that is done, and one that is refused."""
    assert httpx.post(f"{url}do/pause", json=PAUSE, headers=HEADERS).status_code == 200
    assert httpx.post(f"{url}do/resume", json=PAUSE).status_code == 403


def lines_about(log, text):
    return [line for line in log.read_text().splitlines() if text in line]


@pytest.mark.parametrize("level", ["info", "debug"])
def test_alone_it_shows_every_action_and_every_refusal(running, level):
    """Once each, among the lines of the server, with its level and from where it came."""
    url, log = running(*ALONE, "--log-level", level)
    do_and_be_refused(url)
    (done,) = eventually(lambda: lines_about(log, "pause on queue 'files'"), 10, "the action")
    assert done.startswith("INFO: ")
    assert "'acme'" in done
    assert "127.0.0.1" in done
    (refused,) = lines_about(log, "refused 'resume'")
    assert refused.startswith("WARNING: ")
    assert "127.0.0.1" in refused


def test_a_quiet_one_shows_refusals_only(running):
    """`--log-level` holds for the page as for its server."""
    url, log = running(*ALONE, "--log-level", "warning")
    do_and_be_refused(url)
    eventually(lambda: lines_about(log, "refused 'resume'"), 10, "the refusal")
    assert lines_about(log, "pause on queue") == []


def test_a_site_shows_actions_as_the_page_says(running, server, tmp_path):
    """With the lines of docs/web.md, where the web server cares for its own log only."""
    (tmp_path / "logs.py").write_text(read_page(ROOT / "docs" / "web.md").modules["logs.py"])
    for name, source in MODULES.items():
        (tmp_path / name).write_text(source.format(url=server.url(), token=TOKEN))
    url, log = running("-m", "uvicorn", "logged_site:site", path="/vtrr/")
    do_and_be_refused(url)
    (done,) = eventually(lambda: lines_about(log, "pause on queue 'files'"), 10, "the action")
    assert "INFO" in done
    assert len(lines_about(log, "refused 'resume'")) == 1
