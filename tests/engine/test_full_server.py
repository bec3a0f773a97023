"""A server at `maxmemory` stores nothing more, and what keeps or ends a run still works there."""

import pytest

from tests.queues import items
from tests.servers import Server, wanted_kinds
from tests.waiting import eventually
from vtrr_queue.engine import Engine
from vtrr_queue.errors import Refused
from vtrr_queue.stats import Tally


@pytest.fixture(params=wanted_kinds())
def full(request):
    """An engine with some leases, on a server that takes nothing more."""
    with Server(request.param) as server, server.client() as client:
        engine = Engine(client, "q")
        engine.enqueue("a", items(*(f"a{n}" for n in range(40))))
        engine.leases = list(engine.lease(count=10).items)
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        with pytest.raises(Refused):
            engine.enqueue("a", items("more"))
        yield engine
        engine.client.close()


def test_leases_are_renewed(full):
    """Or a heartbeating item would run twice."""
    lease = full.leases[0]
    full.renew(lease.item_id, lease.token)
    assert full.renew_many([(lease.item_id, lease.token)]) == set()


def test_runs_end_in_every_way(full):
    first, second, third, fourth, fifth = full.leases[:5]
    assert full.ack(first.item_id, first.token).held
    assert full.release(second.item_id, second.token).held
    assert full.release(third.item_id, third.token, timed_out=True).held
    assert full.retry(fourth.item_id, fourth.token, delay_seconds=5, retries=1, body=b"x").held
    assert full.bury(fifth.item_id, fifth.token, "why").held


def test_operators_can_act(full):
    assert full.cancel(["a20", full.leases[0].item_id]).waiting == ("a20",)
    full.set_policy("a", paused=True)
    full.set_policy("a", paused=False)
    assert full.purge("a") == 29
    full.reclaim()


def test_items_are_leased(full):
    """Delayed ones, those whose lease has expired, those of limited partitions."""
    full.set_policy("a", cap=100)
    assert len(full.lease(count=10).items) == 10
    for lease in full.leases[:3]:
        full.retry(lease.item_id, lease.token, delay_seconds=0, retries=1, body=b"x")
    for lease in full.leases[3:6]:
        full.renew(lease.item_id, lease.token, 0.001)
    counts = [0]
    eventually(lambda: counts.append(full.reclaim().count) or sum(counts) == 3, 5, "expiries")
    left = full.lease(count=100).items
    assert {lease.item_id for lease in full.leases[:6]} <= {lease.item_id for lease in left}


def test_expired_leases_stop_no_lease(full):
    for lease in full.leases:
        full.renew(lease.item_id, lease.token, 0.001)
    assert len(full.lease(count=30).items) == 30


def test_workers_count(full):
    full.count(Tally())
