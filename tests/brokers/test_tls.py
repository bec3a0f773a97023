"""TLS with an authority of one's own: blocking, in coroutines, by Sentinel, in workers."""

import asyncio

import pytest
import redis
from redis.sentinel import Sentinel

from tests.callers import define, enqueue_both_ways, make_queue
from tests.certificates import Authority, TLSServer
from tests.sentinels import MASTER, SentinelServer
from tests.servers import find_binary
from tests.stage import DISPATCHES, load_app
from tests.waiting import eventually
from tests.workers import Worker
from vtrr_queue import Unavailable
from vtrr_queue.inspector import Inspector

pytestmark = pytest.mark.skipif(
    not find_binary("redis"), reason="no server with TLS: apt-get install redis-server"
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def server(authority):
    with TLSServer(authority) as server:
        yield server


def test_the_settings_of_the_client_are_used(authority, server):
    """Its authority is trusted, on threads and in coroutines."""
    client = redis.Redis.from_url(server.tls_url(1), ssl_ca_certs=str(authority.ca))
    assert enqueue_both_ways(client) == ["a1", "a2"]


def test_a_server_of_another_authority_is_not_trusted(server, tmp_path):
    """No item is sent to it, on threads or in coroutines."""
    stranger = Authority(tmp_path / "stranger")
    vtrr = make_queue(redis.Redis.from_url(server.tls_url(), ssl_ca_certs=str(stranger.ca)))
    work = define(vtrr)
    with pytest.raises(Unavailable, match="certificate verify failed"):
        work.queue("A", [{}])
    with pytest.raises(Unavailable, match="certificate verify failed"):
        asyncio.run(work.aqueue("A", [{}]))


def test_a_client_with_a_certificate(authority):
    """A server that asks for one gets it, on threads and in coroutines."""
    certificate, key = map(str, authority.client)
    with TLSServer(authority, mutual=True) as server:
        client = redis.Redis.from_url(
            server.tls_url(), ssl_ca_certs=str(authority.ca), ssl_certfile=certificate,
            ssl_keyfile=key,
        )  # fmt: skip
        assert enqueue_both_ways(client) == ["a1", "a2"]


def test_a_primary_that_sentinel_names(authority, server):
    """Sentinel tells the address, the primary is reached by TLS."""
    certificate, key = authority.server
    settings = (
        f"tls-replication yes\ntls-ca-cert-file {authority.ca}\n"
        f"tls-cert-file {certificate}\ntls-key-file {key}\n"
    )
    watch = SentinelServer(server, "redis", port=server.tls_port, quorum=1, settings=settings)
    with watch:
        sentinel = Sentinel([(watch.host, watch.port)], socket_timeout=1)
        client = sentinel.master_for(MASTER, ssl=True, ssl_ca_certs=str(authority.ca))
        eventually(lambda: sentinel.discover_master(MASTER), what="a primary")
        assert enqueue_both_ways(client) == ["a1", "a2"]


@pytest.mark.slow
@pytest.mark.parametrize("dispatch", DISPATCHES)
def test_workers(authority, server, tmp_path, dispatch):
    """State and broker are both behind TLS."""
    env = {
        "TLS_URL": server.tls_url().rsplit("/", 1)[0], "CA": str(authority.ca),
        "TRACES_URL": server.url(2), "DISPATCH": dispatch,
    }  # fmt: skip
    app = load_app("encrypted", env)
    with Worker("encrypted", log_path=tmp_path / "w.log", env=env, queues=["encrypted"]):
        ids = app.act.queue("u", [{} for _ in range(50)])
        eventually(lambda: app.traces.count() >= 50, 20, "runs")
        with server.client(1) as client:
            eventually(lambda: not client.exists("vtrr:encrypted:task"), 20, "an empty queue")
    assert sorted(run["id"] for run in app.traces.runs()) == sorted(ids)
    assert Inspector(app.vtrr.engine).audit() == []
    app.vtrr.engine.client.close()
    app.app.close()
