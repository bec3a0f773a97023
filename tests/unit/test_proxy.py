"""The proxy does to real connections what chaos tests ask of it."""

import threading
import time

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.proxy import Proxy
from tests.waiting import eventually

COUNT = "return redis.call('INCR', KEYS[1])"


@pytest.fixture
def proxy(server):
    with Proxy((server.host, server.port)) as proxy:
        yield proxy


@pytest.fixture
def connect(proxy):
    """Make clients that try each command once."""
    clients = []

    def connect(**options):
        options = {"socket_timeout": 5, "retry": Retry(NoBackoff(), 0)} | options
        clients.append(redis.Redis.from_url(proxy.url(), **options))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def test_it_forwards_and_counts(proxy, connect):
    client = connect()
    client.set("a", "x" * 300_000)
    assert client.get("a") == b"x" * 300_000
    assert (proxy.seen["SET"], proxy.seen["GET"]) == (1, 1)


def test_it_forwards_pipelines_and_transactions(connect):
    pipeline = connect().pipeline(transaction=True)
    for number in range(500):
        pipeline.rpush("list", number)
    assert pipeline.execute()[-1] == 500


@pytest.mark.parametrize("protocol", [2, 3])
def test_it_forwards_subscriptions(connect, protocol):
    with connect(protocol=protocol).pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe("news")
        eventually(lambda: connect().publish("news", "hello"), what="subscriber")
        message = eventually(lambda: pubsub.get_message(timeout=1), what="message")
    assert message["data"] == b"hello"


def test_a_dropped_reply_was_run_and_cuts_the_connection(proxy, connect, redis_client):
    client = connect()
    sha = client.script_load(COUNT)
    proxy.drop_replies(every=3)
    assert [client.evalsha(sha, 1, "n") for _ in range(2)] == [1, 2]
    with pytest.raises(redis.ConnectionError):
        client.evalsha(sha, 1, "n")
    assert redis_client.get("n") == b"3"
    assert client.evalsha(sha, 1, "n") == 4
    assert proxy.dropped == 1


def test_other_commands_keep_their_replies(proxy, connect):
    proxy.drop_replies()
    assert connect().ping()
    assert proxy.dropped == 0


def test_a_stalled_reply_comes_late(proxy, connect):
    client = connect()
    proxy.stall_replies(0.3, every=2, commands=("APPEND",))
    durations = []
    for _ in range(2):
        began = time.monotonic()
        client.append("a", "x")
        durations.append(time.monotonic() - began)
    assert durations[0] < 0.3 <= durations[1]
    assert proxy.stalled == 1


def test_a_stall_does_not_hold_up_other_connections(proxy, connect):
    proxy.stall_replies(3, commands=("APPEND",))
    slow, quick = connect(socket_timeout=0.3), connect()
    quick.ping()
    with pytest.raises(redis.TimeoutError):
        slow.append("a", "x")
    began = time.monotonic()
    quick.ping()
    assert time.monotonic() - began < 1


def test_a_black_hole_accepts_and_never_answers(proxy, connect, redis_client):
    old, new = connect(socket_timeout=0.2), connect(socket_timeout=0.2)
    old.ping()
    proxy.black_hole()
    for client in (old, new):
        with pytest.raises(redis.TimeoutError):
            client.set("held", 1)
    assert redis_client.get("held") is None


def test_what_a_black_hole_held_back_goes_on_when_it_heals(proxy, connect):
    client = connect(socket_timeout=10)
    proxy.black_hole()
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(client.incr("n")))
    waiting.start()
    proxy.heal()
    waiting.join()
    assert answers == [1]


def test_refusing_closes_connections_and_takes_no_new_ones(proxy, connect):
    old, new = connect(), connect()
    old.ping()
    proxy.refuse()
    for client in (old, new):
        with pytest.raises(redis.ConnectionError):
            client.ping()
    proxy.heal()
    assert old.ping()
    assert new.ping()


def test_a_client_that_leaves_takes_its_server_connection_along(proxy, connect, redis_client):
    """A blocked pop of a client that is gone must not eat what comes later."""
    client = connect(socket_timeout=0.2)
    with pytest.raises(redis.TimeoutError):
        client.blpop("list", timeout=0)
    eventually(lambda: redis_client.info("clients")["blocked_clients"] == 0, what="unblocked")
    redis_client.rpush("list", 1)
    assert redis_client.llen("list") == 1
    assert proxy.seen["BLPOP"] == 1
