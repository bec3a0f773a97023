"""Replies that are lost or late change nothing: neither order, nor results, nor counts."""

import pytest

from tests.queues import audited_engine, items
from tests.servers import Server, wanted_kinds
from vtrr_queue.engine import Engine
from vtrr_queue.errors import Unavailable

TENANTS = "abcde"


def run(engine, total, size):
    """Enqueue and serve so many items of five tenants, `size` at a time, as one worker does."""
    for tenant in TENANTS:
        names = [f"{tenant}{n}" for n in range(total // len(TENANTS))]
        for start in range(0, len(names), 50):
            engine.enqueue(tenant, items(*names[start : start + 50]))
    served, acked = [], []
    while leases := engine.lease(count=size).items:
        served += [(x.item_id, x.timeouts, x.retries) for x in leases]
        acked += [engine.ack(x.item_id, x.token).held for x in leases]
    return served, acked


def check(redis_client, proxied_client, total, size, socket_timeout):
    with audited_engine(redis_client, "plain") as plain:
        expected = run(plain, total, size)
    with audited_engine(proxied_client, "faulty", socket_timeout=socket_timeout) as faulty:
        got = run(faulty, total, size)
    assert got == expected
    assert len({item_id for item_id, _, _ in got[0]}) == total
    assert got[1] == [True] * total


@pytest.mark.slow
def test_every_fifth_reply_is_lost(server, redis_client, proxy, monkeypatch):
    """2,000 items: leased once each, in the order of a run without faults, all acks True."""
    monkeypatch.setattr("vtrr_queue.talk.BACKOFF_SECONDS", (0.001, 0.001))  # 700 times
    proxy.drop_replies(every=5)
    with type(redis_client).from_url(proxy.url()) as proxied:
        check(redis_client, proxied, 2000, 3, socket_timeout=5)
    assert proxy.dropped > 500


@pytest.mark.slow
def test_replies_come_after_the_timeout(server, redis_client, proxy):
    """500 items, and every 25th reply later than the client waits."""
    proxy.stall_replies(0.25, every=25)
    with type(redis_client).from_url(proxy.url()) as proxied:
        check(redis_client, proxied, 500, 2, socket_timeout=0.15)
    assert proxy.stalled > 25


@pytest.mark.parametrize("kind", wanted_kinds())
def test_a_replica_without_its_primary_is_asked_again(kind):
    """MASTERDOWN is no refusal: in a failover the next attempt may meet the new primary."""
    with Server(kind) as server, server.client() as client:
        engine = Engine(client, "q")
        client.config_set("replica-serve-stale-data", "no")
        client.replicaof("127.0.0.1", 1)
        with pytest.raises(Unavailable, match="3 attempts"):
            engine.known(["a1"])
        with pytest.raises(Unavailable, match="3 attempts"):
            engine.enqueue("a", items("a1"))
        client.replicaof("NO", "ONE")
        engine.enqueue("a", items("a1"))
        assert engine.known(["a1"]) == ["a1"]
