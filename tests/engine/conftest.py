"""Engines of an empty queue, also behind a proxy."""

import pytest

from tests.proxy import Proxy
from tests.queues import audited_engine


@pytest.fixture
def engine(redis_client):
    with audited_engine(redis_client) as engine:
        yield engine


@pytest.fixture
def proxy(server):
    with Proxy((server.host, server.port)) as proxy:
        yield proxy
