"""Clusters that several tests share."""

import pytest

from tests.clusters import Cluster
from tests.servers import find_binary, wanted_kinds


@pytest.fixture(scope="module", params=wanted_kinds())
def cluster(request):
    """A cluster of every kind of server there is; its slots and primaries may have moved."""
    if find_binary(request.param) is None:
        pytest.fail(f"a {request.param} server is required under CI: apt-get install redis-server")
    with Cluster(request.param) as opened:
        yield opened


@pytest.fixture
def cluster_client(cluster):
    """A client of an empty cluster."""
    with cluster.client() as client:
        client.flushall(target_nodes=client.PRIMARIES)
        yield client
