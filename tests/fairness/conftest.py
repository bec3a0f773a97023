"""An engine of an empty queue."""

import pytest

from tests.queues import audited_engine


@pytest.fixture
def engine(redis_client):
    with audited_engine(redis_client) as engine:
        yield engine
