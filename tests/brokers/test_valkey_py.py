"""Clients of valkey-py are taken for what they are: other names for the same settings."""

import asyncio

import pytest
import valkey
from valkey.cluster import ClusterNode
from valkey.sentinel import Sentinel

from tests.callers import define, enqueue_both_ways, make_queue
from tests.queues import audited_engine, drain, items
from tests.sentinels import MASTER, Watched
from tests.waiting import eventually
from vtrr_queue.engine import Engine
from vtrr_queue.errors import ArgumentError, Unavailable


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decode_responses": True},
        {"protocol": 3},
        {"client_name": "somebody", "health_check_interval": 1},
    ],
    ids=lambda options: next(iter(options), "plain"),
)
def test_a_client_with_its_own_settings_works(server, redis_client, options):
    """Database, protocol, decoding and names, on threads and in coroutines."""
    client = valkey.Valkey.from_url(server.url(3), **options)
    assert enqueue_both_ways(client) == ["a1", "a2"]
    assert redis_client.info("keyspace").keys() == {"db3"}


def test_a_user_and_a_unix_socket(tmp_path):
    """What the client would say is said."""
    client = valkey.Valkey(unix_socket_path=str(tmp_path / "none"), username="u", password="p")
    pool = Engine(client, "q").client.pool
    connection = pool.make_connection()
    assert (connection.path, connection.username, connection.password) == (
        str(tmp_path / "none"), "u", "p")  # fmt: skip


def test_tls_settings_are_carried_over(tmp_path):
    """Verification is not lost on the way."""
    client = valkey.Valkey(ssl=True, ssl_ca_certs=str(tmp_path), ssl_cert_reqs="required")
    connection = Engine(client, "q").client.pool.make_connection()
    assert type(connection).__name__ == "SSLConnection"
    assert connection.ca_certs == str(tmp_path)


def test_what_cannot_be_shared_or_carried_over_is_refused(server):
    """One connection for all, or a connection class of somebody else."""

    class Own(valkey.Connection):
        """Does something else."""

    with (
        valkey.Valkey.from_url(server.url(), single_connection_client=True) as single,
        pytest.raises(ArgumentError, match="single_connection_client=True"),
    ):
        Engine(single, "q")
    pool = valkey.ConnectionPool(connection_class=Own)
    with pytest.raises(ArgumentError, match="valkey-py's own connection classes"):
        Engine(valkey.Valkey(connection_pool=pool), "q")


def test_a_function_for_new_connections(server):
    """It is called on threads; coroutines would have to await it, so there it is refused."""
    met = []

    def meet(connection):
        connection.on_connect()
        met.append(connection)

    vtrr = make_queue(valkey.Valkey.from_url(server.url(), valkey_connect_func=meet))
    work = define(vtrr)
    work.queue("A", [{"id": "a1"}])
    assert len(met) == 1
    with pytest.raises(ArgumentError, match="redis_connect_func"):
        asyncio.run(work.aqueue("A", [{"id": "a2"}]))


def test_a_cluster(cluster, cluster_client):
    """The keys get their hash tag, and the slot is found."""
    nodes = [ClusterNode(*address) for address in cluster.addresses[:1]]
    with valkey.ValkeyCluster(startup_nodes=nodes) as client, audited_engine(client) as engine:
        engine.enqueue("A", items("a1"))
        engine.client.place.is_lost = True
        assert [lease.item_id for lease in drain(engine)] == ["a1"]
        assert engine.keys.prefix == "vtrr:{q}:"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_sentinel_names_the_primary():
    """Before and after a failover."""
    with Watched() as watched:
        engine = Engine(Sentinel(watched.addresses, socket_timeout=1).master_for(MASTER), "q")
        engine.enqueue("A", items("a1"))
        watched.fail_over()

        def again():
            try:
                return engine.enqueue("A", items("a2"))
            except Unavailable:
                return None

        eventually(again, 20, "a new primary")
        assert "a2" in [lease.item_id for lease in drain(engine)]
        engine.client.close()
