"""The doctor names each wrong setting of a real server, and nothing on a right one."""

import time

import pytest
import redis
from celery import Celery

from tests.servers import Server
from tests.waiting import eventually
from vtrr_queue.doctor import Seen, _persistence, _version, look
from vtrr_queue.engine import Engine
from vtrr_queue.errors import Unavailable
from vtrr_queue.inspector import Inspector
from vtrr_queue.model import NewItem

HEALTHY = ("--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction")
SETTINGS = [
    (("--appendonly", "no"), {"no-aof": "warning"}),
    (("--appendfsync", "no"), {"appendfsync-no": "warning"}),
    (("--maxmemory-policy", "allkeys-lru"), {"eviction-policy": "info"}),
    (("--maxmemory-policy", "volatile-lru"), {"eviction-volatile": "info"}),
    (
        ("--maxmemory-policy", "volatile-ttl", "--maxmemory", "1gb"),
        {"eviction-volatile": "warning"},
    ),
    (
        ("--maxmemory-policy", "allkeys-lru", "--maxmemory", "1gb"),
        {"eviction-policy": "error"},
    ),
    (("--maxmemory", "1100000"), {"memory-full": "warning"}),
]


def findings(server, **options):
    """Code -> severity of all findings, in their order."""
    with server.client(**options) as client:
        engine = Engine(client, "q")
        found = Inspector(engine).doctor()
        engine.client.close()
    assert all(each.message and each.cost and each.fix for each in found)
    return {each.code: each.severity for each in found}


@pytest.fixture
def kind(server):
    """Each kind of server there is."""
    return server.kind


def test_a_healthy_server_has_no_findings(kind):
    with Server(kind, *HEALTHY) as server:
        assert findings(server) == {}


@pytest.mark.parametrize(("settings", "expected"), SETTINGS, ids=lambda each: str(each)[:40])
def test_a_wrong_setting_is_found(kind, settings, expected):
    with Server(kind, *HEALTHY, *settings) as server:
        assert findings(server) == expected


def test_a_replica_is_no_place_for_a_queue(kind):
    """Findings come worst first."""
    with Server(kind, *HEALTHY) as primary:
        replicaof = ("--replicaof", f"{primary.host} {primary.port}")
        with Server(kind, *HEALTHY, "--appendonly", "no", *replicaof) as replica:
            assert list(findings(replica).items()) == [("replica", "error"), ("no-aof", "warning")]
            with replica.client() as client, pytest.raises(Unavailable) as caught:
                Engine(client, "q").enqueue("a", [NewItem("i", b"")])
            assert "enqueue: Redis refused 3 attempts: You can't write" in str(caught.value)


def test_a_user_that_may_not_read_the_configuration_is_told(kind):
    with Server(kind, *HEALTHY) as server, server.client() as client:
        client.acl_setuser(
            "app", enabled=True, nopass=True, keys=["*"], categories=["+@all"],
            commands=["-config", "-config|get"],
        )  # fmt: skip
        found = findings(server, username="app", password="any")
        assert found == {"config-forbidden": "info"}


def test_a_user_without_dangerous_commands_is_told(kind):
    """Neither INFO nor CONFIG; a key outside the queue's may not be asked for either."""
    with Server(kind, *HEALTHY, "--maxmemory-policy", "allkeys-lru") as server:
        with server.client() as client:
            client.acl_setuser(
                "app", enabled=True, nopass=True, keys=["vtrr:q:*"],
                categories=["+@all", "-@dangerous"],
            )  # fmt: skip
        found = findings(server, username="app", password="any")
        assert found == {"info-forbidden": "info", "config-forbidden": "info"}


@pytest.mark.parametrize("stops", ["yes", "no"])
def test_a_snapshot_that_failed_is_an_error_when_it_stops_writes(kind, stops):
    """The server then refuses every write."""
    settings = ("--save", "3600 1", "--stop-writes-on-bgsave-error", stops)
    with Server(kind, *HEALTHY, *settings) as server, server.client() as client:
        (server.folder / "dump.rdb").mkdir()  # where the snapshot belongs
        client.bgsave()
        eventually(
            lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", 10, "a failure"
        )
        if stops == "yes":
            with pytest.raises(redis.ResponseError, match="MISCONF"):
                client.set("any", "value")
            assert findings(server) == {"snapshot-failed": "error"}
        else:
            client.set("any", "value")
            assert findings(server) == {}


def test_a_broker_in_the_same_database_is_named(kind):
    """Its own database index beside it is fine."""
    with Server(kind, *HEALTHY) as server, Celery(broker=server.url()) as app:
        with app.connection_for_write() as connection, connection.channel() as channel:
            app.amqp.queues["celery"].bind(channel).declare()
        assert findings(server) == {"shared-database": "info"}
        assert findings(server, db=1) == {}


def test_a_server_that_is_away_is_no_finding(kind):
    """The call fails as every other read does."""
    with Server(kind) as server:
        server.stop()
        with pytest.raises(Unavailable):
            findings(server)


@pytest.mark.parametrize("older", [True, False])
def test_keys_of_another_layout_are_found(kind, older):
    with Server(kind, *HEALTHY) as server, server.client() as client:
        if older:
            client.zadd("vtrr:q:queue", {"item": 1})
        else:
            client.set("vtrr:q:schema", 99)
        assert findings(server) == {"schema": "error"}


def test_keys_of_this_layout_are_right(kind):
    with Server(kind, *HEALTHY) as server, server.client() as client:
        engine = Engine(client, "q")
        engine.enqueue("p", [NewItem("i", b"x")])
        engine.set_policy("p", cap=1)
        engine.client.close()
        assert findings(server) == {}


@pytest.mark.parametrize("seconds", [-5, 5])
def test_a_clock_that_is_far_away_is_found(kind, monkeypatch, seconds):
    now = time.time
    monkeypatch.setattr("vtrr_queue.doctor.time.time", lambda: now() + seconds)
    with Server(kind, *HEALTHY) as server:
        assert findings(server) == {"clock": "warning"}


def test_a_slow_answer_is_no_clock_that_is_wrong(kind):
    """The time on the way is no difference of clocks."""
    with Server(kind, *HEALTHY) as server, server.client() as client:
        engine = Engine(client, "q", socket_timeout=20)
        client.execute_command("CLIENT", "PAUSE", 2300, "ALL")
        seen = eventually(lambda: look(engine.client, engine.keys), 20, "an answer")
        engine.client.close()
    assert abs(seen.clock_ahead) < 2


VERSIONS = [
    ({"redis_version": "6.0.16"}, ["server-too-old"]),
    ({"redis_version": "6.2.0"}, []),
    ({"redis_version": "7.2.4", "valkey_version": "7.1.9"}, ["server-too-old"]),
    ({"redis_version": "7.2.4", "valkey_version": "9.1.0"}, []),
    ({"redis_version": "255.255.255"}, []),
]


@pytest.mark.parametrize(("info", "codes"), VERSIONS)
def test_versions_nobody_tests_are_named(info, codes):
    """Servers so old are not at hand; what INFO would say is."""
    assert [each.code for each in _version(Seen(info))] == codes


def test_a_file_that_cannot_be_written_is_an_error():
    """A full disk is not at hand; what INFO says then is."""
    info = {"aof_enabled": "1", "aof_last_write_status": "err"}
    assert [each.code for each in _persistence(Seen(info))] == ["aof-broken"]
