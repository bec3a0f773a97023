"""Fixtures of tests for which it does not matter which server it is."""

import pytest

from tests.queues import audited_engine


@pytest.fixture
def server(_servers):
    """An empty server of one kind: what is tested does not know which it is."""
    server = _servers("valkey")
    with server.client() as client:
        client.flushall()
    return server


@pytest.fixture
def engine(redis_client):
    with audited_engine(redis_client, "files") as engine:
        yield engine
