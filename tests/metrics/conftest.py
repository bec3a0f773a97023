"""`make compat` installs no exporters and leaves these tests out."""

from importlib.util import find_spec

import pytest

from tests.queues import audited_engine

PACKAGES = ("httpx", "opentelemetry", "prometheus_client", "uvicorn")

if not all(map(find_spec, PACKAGES)):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def server(_servers):
    """An empty server of one kind: exporters do not know which it is."""
    server = _servers("valkey")
    with server.client() as client:
        client.flushall()
    return server


@pytest.fixture
def engine(redis_client):
    with audited_engine(redis_client, "files") as engine:
        yield engine
