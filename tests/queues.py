"""Queues of tests: engines that are audited when they are done with, and ways to empty them."""

from contextlib import contextmanager

from vtrr_queue.engine import Engine
from vtrr_queue.inspector import Inspector
from vtrr_queue.model import NewItem


@contextmanager
def audited_engine(redis_client, name="q", **options):
    """Make an engine; what was done with it must have kept the invariants."""
    engine = Engine(redis_client, name, **options)
    try:
        yield engine
        assert Inspector(engine).audit() == []
    finally:
        engine.client.close()


def items(*item_ids, weight=1.0, delay_ms=0):
    """Make items with their id as body."""
    return [NewItem(item_id, item_id.encode(), weight, delay_ms) for item_id in item_ids]


def serve(engine, count):
    """Lease and finish so many items one after the other, as one slot does; their ids in order."""
    served = []
    for _ in range(count):
        (lease,) = engine.lease().items
        assert engine.ack(lease.item_id, lease.token).held
        served.append(lease.item_id)
    return served


def drain(engine, count=100):
    """Lease and finish everything, so many at a time; the leases in order."""
    served = []
    while leases := engine.lease(count=count).items:
        assert finish(engine, leases) == [True] * len(leases)
        served += leases
    return served


def finish(engine, leases):
    """Ack leases in one round trip; whether each was still held."""
    calls = [engine.ack_call(lease.item_id, lease.token) for lease in leases]
    replies = engine.client.call_many([call for call, _ in calls])
    return [read(reply).held for (_, read), reply in zip(calls, replies, strict=True)]
