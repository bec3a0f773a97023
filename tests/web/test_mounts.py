"""The page inside other sites, as docs/web.md says: FastAPI, Django, Flask."""

import contextlib
import os
import sys
import time

import httpx
import pytest

from tests.docs.blocks import ROOT, read_page
from tests.processes import spawn
from tests.servers import Server, free_port
from tests.waiting import eventually
from tests.web.serving import TOKEN
from tests.web.test_app import HEADERS, PAUSE, answer_of, messages
from vtrr_queue.engine import Engine

pytestmark = [pytest.mark.slow]
PAGE = read_page(ROOT / "docs" / "web.md")

# What `django-admin startproject` writes, as far as it matters here.
SETTINGS = """
SECRET_KEY = "for a test"
ROOT_URLCONF = "shop.urls"
ALLOWED_HOSTS = ["*"]
"""
URLS = """
from django.http import HttpResponse
from django.urls import path
urlpatterns = [path("own", lambda request: HttpResponse("of the site"))]
"""
OWN_PAGES = {
    "fastapi_site.py": "\n@site.get('/own')\ndef own():\n    return 'of the site'\n",
    "flask_site.py": "\n@site.get('/own')\ndef own():\n    return 'of the site'\n",
}
SITES = {
    "fastapi": ["uvicorn", "fastapi_site:site", "--timeout-graceful-shutdown", "1"],
    "django": ["uvicorn", "shop.asgi:application", "--timeout-graceful-shutdown", "1"],
    "flask": ["flask", "--app", "flask_site:site", "run"],
}


@pytest.fixture
def server():
    """A server of this test alone."""
    with Server() as private:
        yield private


@pytest.fixture
def folder(server, tmp_path):
    """The modules of the page, each site with a page of its own."""
    PAGE.write(tmp_path, f"{server.host}:{server.port}")
    (tmp_path / "shop" / "settings.py").write_text(SETTINGS)
    (tmp_path / "shop" / "urls.py").write_text(URLS)
    for name, source in OWN_PAGES.items():
        path = tmp_path / name
        path.write_text(path.read_text() + source)
    return tmp_path


@contextlib.contextmanager
def running(command, folder):
    """A site as a process; yields a client of it."""
    port = free_port()
    env = {**os.environ, "PYTHONPATH": str(folder), "VTRR_WEB_TOKEN": TOKEN}
    with (folder / "log").open("wb") as log:
        process = spawn([sys.executable, "-m", *command, "--port", str(port)], cwd=folder,
                        env=env, stdout=log, stderr=log)  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        eventually(lambda: answer_of(f"{url}/own"), 20, "the site answers")
        with httpx.Client(base_url=url, timeout=10) as client:
            yield client
        process.terminate()
        process.wait(10)
        assert "Traceback" not in (folder / "log").read_text()
    finally:
        process.kill()
        process.wait()
        print((folder / "log").read_text())


class Quiet:
    """Whether Redis has heard nothing for longer than a page's refresh."""

    def __init__(self, redis_client):
        self._client, self._count, self._since = redis_client, -1, 0.0

    def is_so(self):
        stats = self._client.info("commandstats")
        count = stats.get("cmdstat_hlen", {"calls": 0})["calls"]
        if count != self._count:
            self._count, self._since = count, time.monotonic()
        return time.monotonic() - self._since > 3


@pytest.mark.timeout(90)
@pytest.mark.parametrize("site", SITES)
def test_it_stands_under_a_path_of_the_site(server, folder, site):
    """The page, its files, its stream and its actions work; the site's own pages too."""
    with running(SITES[site], folder) as client:
        assert "of the site" in client.get("/own").text
        assert (
            client.get("/vtrr/").text == (ROOT / "src/vtrr_queue/web/static/page.html").read_text()
        )
        assert client.get("/vtrr/page.js").headers["Content-Type"].startswith("text/javascript")
        assert client.get("/vtrr/about").json()["queues"] == ["files"]
        with client.stream("GET", "/vtrr/events") as stream:
            assert len(messages(stream, 2)) == 2
        assert client.post("/vtrr/do/pause", json=PAUSE).status_code == 403
        done = client.post("/vtrr/do/pause", json=PAUSE, headers=HEADERS)
        assert done.status_code == 200
        with server.client(1) as redis_client:
            quiet = Quiet(redis_client)
            eventually(quiet.is_so, 40, "Redis is left alone after the viewer has gone")
            engine = Engine(redis_client, "files")
            assert engine.policy("acme").paused
            engine.client.close()
