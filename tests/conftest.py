"""Servers and workers for every test, and what belongs to a folder of tests."""

import contextlib
import functools
import itertools
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.servers import Server, find_binary, wanted_kinds
from tests.turns import turn
from tests.workers import Worker

COMPAT_FOLDERS = {"scripts", "engine", "celery", "compat"}
TURNS = pytest.StashKey[Path]()

# The machine decides how long an example takes, not the code.
settings.register_profile("vtrr", deadline=None, print_blob=True)
settings.load_profile("vtrr")


def pytest_configure(config):
    """Make the place where the processes of a parallel run take turns, or learn it."""
    if hasattr(config, "workerinput"):
        config.stash[TURNS] = Path(config.workerinput["turns"])
    elif config.getoption("numprocesses", None):
        folder = tempfile.mkdtemp(prefix="vtrr-turns-")
        config.add_cleanup(lambda: shutil.rmtree(folder))
        config.stash[TURNS] = Path(folder)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell a process of a parallel run the place."""
    node.workerinput["turns"] = str(node.config.stash[TURNS])


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Mark what `make compat` runs by its folder; what must be alone comes first."""
    tests = Path(__file__).parent
    for item in items:
        if item.path.relative_to(tests).parts[0] in COMPAT_FOLDERS:
            item.add_marker("compat")
    done = yield  # others choose and order
    items.sort(key=lambda item: item.get_closest_marker("alone") is None)
    return done


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Take turns with the other processes, before the time of the test begins to run."""
    with contextlib.ExitStack() as stack:
        if folder := item.config.stash.get(TURNS, None):
            alone = item.get_closest_marker("alone") is not None
            stack.enter_context(turn(folder, alone=alone))
        return (yield)


@pytest.fixture(scope="session")
def _servers():
    """One server of each kind for all tests of this process, started when it is first needed."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def started(kind):
            return stack.enter_context(Server(kind))

        yield started


@pytest.fixture(params=wanted_kinds())
def server(request, _servers):
    """An empty server of every kind there is; take a private `Server` to stop or configure it."""
    if find_binary(request.param) is None:
        pytest.fail(f"a {request.param} server is required under CI: apt-get install redis-server")
    server = _servers(request.param)
    if not server.is_running():
        server.start()
    with server.client() as client:
        client.flushall()
    return server


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
