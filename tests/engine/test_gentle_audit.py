"""A gentle audit of a large queue finds what is wrong, and keeps nobody waiting."""

import threading

import pytest

from tests.queues import items
from vtrr_queue.engine import Engine
from vtrr_queue.inspector import SMALL, Inspector


@pytest.fixture
def engine(redis_client):
    """More items than are read at one moment, some in one long backlog."""
    engine = Engine(redis_client, "q")
    engine.enqueue("long", items(*(f"l{n}" for n in range(2 * SMALL))))
    for n in range(SMALL):
        engine.enqueue(f"p{n}", items(f"i{n}"))
    engine.lease(count=50)
    return engine


def test_all_is_read_in_pieces(engine, redis_client):
    """Nothing that grows with the queue is asked for at once."""
    redis_client.config_resetstat()
    assert Inspector(engine).audit(gently=True) == []
    asked = redis_client.info("commandstats")
    assert not asked.keys() & {"cmdstat_hgetall", "cmdstat_zrange"}
    assert asked["cmdstat_hscan"]["calls"] > 2 * SMALL / 500


def test_it_finds_what_the_other_finds(engine, redis_client):
    redis_client.hdel("vtrr:q:task", "i900")
    redis_client.zrem("vtrr:q:queue", "p901")
    redis_client.lrem("vtrr:q:backlog:long", 1, "l1700")
    inspector = Inspector(engine)
    found = inspector.audit(gently=True)
    assert len(found) >= 3
    assert sorted(found) == sorted(inspector.audit())


def test_a_queue_in_use_is_right(engine):
    """What changes between two pieces is no violation."""
    stopped = threading.Event()

    def work():
        while not stopped.is_set():
            for lease in engine.lease(count=5).items:
                engine.ack(lease.item_id, lease.token)
            engine.enqueue("long", items(f"new{threading.get_ident()}-{len(done)}"))
            done.append(1)

    done = []
    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert Inspector(engine).audit(gently=True) == []
    finally:
        stopped.set()
        thread.join()
    assert done
