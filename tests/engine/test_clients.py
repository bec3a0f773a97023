"""Any client of redis-py will do that can be shared; its settings are taken, it is not used."""

import pytest
import redis

from tests.queues import audited_engine, drain, items
from vtrr_queue.engine import Engine
from vtrr_queue.errors import ArgumentError, ArgumentTypeError


@pytest.mark.parametrize(
    "options",
    [
        {"decode_responses": True},
        {"decode_responses": True, "encoding": "latin-1"},
        {"protocol": 3},
        {"socket_timeout": 0.001, "health_check_interval": 1},
        {"max_connections": 1},
        {"client_name": "somebody"},
    ],
    ids=str,
)
def test_a_client_with_its_own_settings_works(server, options):
    """Bodies stay bytes and ids stay text, whatever the client makes of replies."""
    with server.client(**options) as client, audited_engine(client) as engine:
        engine.enqueue("ключ", items("один", "два"))
        leases = engine.lease(count=2).items
        assert [lease.item_id for lease in leases] == ["один", "два"]
        assert [lease.body for lease in leases] == ["один".encode(), "два".encode()]
        assert {lease.partition for lease in leases} == {"ключ"}
        assert all(engine.ack(x.item_id, x.token).held for x in leases)


def test_the_database_index_is_kept(server):
    """Two queues of one name in two databases have nothing in common."""
    with server.client(db=0) as zero, server.client(db=7) as seven:
        with audited_engine(zero) as first, audited_engine(seven) as second:
            first.enqueue("A", items("a1"))
            second.enqueue("A", items("a2"))
            assert [lease.item_id for lease in drain(second)] == ["a2"]
            assert zero.hkeys(first.keys["task"]) == [b"a1"]
        seven.flushdb()


def test_queues_of_other_names_share_a_database(redis_client):
    with audited_engine(redis_client, "one") as one, audited_engine(redis_client, "two") as two:
        one.enqueue("A", items("same"))
        assert two.enqueue("A", items("same")).duplicates == ()
        assert [lease.item_id for lease in drain(two)] == ["same"]
        assert [lease.item_id for lease in drain(one)] == ["same"]


@pytest.mark.parametrize("name", ["a:backlog", "a:backlog:b", "x:y:backlog"])
def test_a_name_whose_keys_could_be_backlogs_of_another_queue_is_refused(redis_client, name):
    """`vtrr:a:backlog:queue` would be both the queue of one and a partition of the other."""
    with pytest.raises(ArgumentError, match="name must be"):
        Engine(redis_client, name)


def test_a_name_may_contain_the_word(redis_client):
    with audited_engine(redis_client, "backlog:a:backlogs") as engine:
        engine.enqueue("A", items("a1"))
        assert len(drain(engine)) == 1


def test_a_client_of_one_connection_is_refused(server):
    """It can't be shared between threads, and redis-py would mix up their replies."""
    with (
        server.client(single_connection_client=True) as client,
        pytest.raises(ArgumentError, match="single_connection_client=True"),
    ):
        Engine(client, "q")


@pytest.mark.parametrize("client", [None, "redis://localhost", object(), redis.asyncio.Redis()])
def test_what_is_no_client_is_refused(client):
    with pytest.raises(ArgumentTypeError, match=r"redis_client must be a redis\.Redis"):
        Engine(client, "q")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_lease_of_nonsense_is_refused(redis_client, seconds):
    with pytest.raises(ArgumentError, match="lease_seconds must be a finite number above 0"):
        Engine(redis_client, "q", lease_seconds=seconds)


def test_the_client_itself_runs_nothing(server):
    """Its pool has not opened a connection, and may be closed at any time."""
    with server.client() as client:
        with audited_engine(client) as engine:
            engine.enqueue("A", items("a1"))
            client.close()
            assert len(drain(engine)) == 1
        assert client.connection_pool._available_connections == []


def test_threads_do_not_wait_for_each_other(engine, redis_client):
    """Each call in flight has a connection of its own; an idle one is used again."""
    before = redis_client.info("stats")["total_connections_received"]
    for n in range(50):
        engine.enqueue("A", items(f"a{n}"))
    assert redis_client.info("stats")["total_connections_received"] - before <= 1
