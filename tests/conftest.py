"""Servers and workers for every test, and what belongs to a folder of tests."""

import itertools
from pathlib import Path

import pytest
from hypothesis import settings

from tests.servers import Server, find_binary, wanted_kinds
from tests.workers import Worker

COMPAT_FOLDERS = {"scripts", "engine", "celery", "compat"}

# The machine decides how long an example takes, not the code.
settings.register_profile("vtrr", deadline=None, print_blob=True)
settings.load_profile("vtrr")


def pytest_collection_modifyitems(items):
    """Mark what `make compat` runs by its folder."""
    tests = Path(__file__).parent
    for item in items:
        if item.path.relative_to(tests).parts[0] in COMPAT_FOLDERS:
            item.add_marker("compat")


@pytest.fixture(scope="session", params=wanted_kinds())
def _session_server(request):
    """One process of each kind for the whole run."""
    kind = request.param
    if find_binary(kind) is None:
        pytest.fail(f"a {kind} server is required under CI: apt-get install redis-server")
    with Server(kind) as server:
        yield server


@pytest.fixture
def server(_session_server):
    """An empty server of every kind there is; take a private `Server` to stop or configure it."""
    if not _session_server.is_running():
        _session_server.start()
    with _session_server.client() as client:
        client.flushall()
    return _session_server


@pytest.fixture
def redis_client(server):
    """A client of database 0."""
    with server.client() as client:
        yield client


@pytest.fixture
def redis_url(server):
    """The address of database 0."""
    return server.url()


@pytest.fixture
def start_worker(tmp_path):
    """Start real workers, `start_worker("app_module", queues=[...], env={...})`, and end them."""
    workers = []
    numbers = itertools.count(1)

    def start(module, **options):
        worker = Worker(module, log_path=tmp_path / f"worker{next(numbers)}.log", **options)
        workers.append(worker)
        worker.start()
        worker.wait_ready()
        return worker

    yield start
    for worker in workers:
        worker.kill_group()
        print(worker.tail())
