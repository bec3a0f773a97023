"""Engines of an empty queue, also behind a proxy, and a database of release 0.2."""

import pytest

from tests.old_queue import NAME, convert, fill, state
from tests.proxy import Proxy
from tests.queues import audited_engine
from vtrr_queue.engine import Engine


@pytest.fixture
def engine(redis_client):
    with audited_engine(redis_client) as engine:
        yield engine


@pytest.fixture
def proxy(server):
    with Proxy((server.host, server.port)) as proxy:
        yield proxy


@pytest.fixture
def old_engine(server):
    """An engine on the name that release 0.2 used; it need not be able to work."""
    with server.client() as client:
        engine = Engine(client, NAME)
        yield engine
        engine.client.close()


@pytest.fixture
def old(redis_client):
    """A client of a database that 0.2 has filled."""
    fill(redis_client)
    return redis_client


@pytest.fixture
def reference(server):
    """What an undisturbed conversion makes."""
    with server.client() as client:
        fill(client)
        convert(client, 2)
        found = state(client)
        client.flushall()
    return found
