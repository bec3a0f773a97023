"""A browser for all tests of the page, and a web server of each app."""

import contextlib
import os
import threading

import httpx
import pytest
import uvicorn

from tests.waiting import eventually
from tests.web.browser import Browser, find_chromium
from vtrr_queue.web import create_app

TOKEN = "a token of the tests"
REFRESH = 0.2


@pytest.fixture(scope="session")
def browser():
    """A Chromium; without one its tests are skipped, under CI they fail."""
    if find_chromium() is None:
        if os.environ.get("CI"):
            pytest.fail("a browser is required under CI: apt-get install chromium")
        pytest.skip("no Chromium: apt-get install chromium")
    with Browser() as browser:
        yield browser


@contextlib.contextmanager
def served(app):
    """Serve an app on a free port; yields its address."""
    config = uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=1,
                            ws="none")  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started, 10, "the web server is up")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def serve(engine):
    """Serve the page of the engine, `serve(**options)`; returns its address."""
    with contextlib.ExitStack() as stack:

        def start(**options):
            app = create_app(engine, **{"token": TOKEN, "refresh_seconds": REFRESH} | options)
            return stack.enter_context(served(app))

        yield start


@pytest.fixture
def client(serve):
    """An HTTP client of the page, which has a token."""
    with httpx.Client(base_url=serve(), timeout=10) as client:
        yield client
