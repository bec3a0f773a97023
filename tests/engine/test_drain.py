"""A large queue is filled, drained in fair order and leaves nothing behind."""

from collections import Counter

import pytest

from tests.queues import drain, items
from vtrr_queue.inspector import Depth, Inspector

PARTITIONS, EACH = 1000, 100


@pytest.mark.slow
def test_a_hundred_thousand_items_leave_no_key_behind(engine, redis_client):
    """Each is leased once; in every thousand serves each of a thousand partitions has its turn."""
    names = [f"tenant-{n:03}" for n in range(PARTITIONS)]
    for partition in names:
        engine.enqueue(partition, items(*(f"{partition}-{n}" for n in range(EACH))))
    assert Inspector(engine).depth() == Depth(PARTITIONS * EACH, 0, 0, 0, PARTITIONS, 0)
    served = drain(engine)
    assert len(served) == len({lease.item_id for lease in served}) == PARTITIONS * EACH
    for start in range(0, len(served), PARTITIONS):
        assert Counter(x.partition for x in served[start : start + PARTITIONS]) == Counter(names)
    # What makes a repeated enqueue harmless outlives it by design: one number for each producer,
    # that is for each thread that enqueued at once, and it goes by itself.
    left = set(redis_client.scan_iter())
    assert {key.rpartition(b":")[0] for key in left} <= {b"vtrr:q:recent"}
    assert len(left) <= 1
    assert all(0 < redis_client.pttl(key) <= 10_000 for key in left)
