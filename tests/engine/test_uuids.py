"""Items named by UUIDs, as Celery makes them, are stored short and told whole."""

import uuid

import pytest

from tests.queues import items
from vtrr_queue.engine import Engine
from vtrr_queue.errors import DuplicateItem
from vtrr_queue.inspector import Inspector


@pytest.fixture
def engine(redis_client):
    return Engine(redis_client, "q")


def test_every_call_takes_and_tells_them_whole(engine):
    """From enqueue to a dead letter and back, and what people look at."""
    first, second, third = (str(uuid.uuid4()) for _ in range(3))
    inspector = Inspector(engine)
    engine.enqueue("a", items(first, second, third))
    assert engine.enqueue("a", items(second)).duplicates == (second,)
    with pytest.raises(DuplicateItem, match=second):
        engine.enqueue("a", items(second), on_duplicate="error")
    assert engine.known([third, "x", first]) == [third, first]
    lease, other = engine.lease(count=2).items
    assert (lease.item_id, other.item_id) == (first, second)
    assert [held.item_id for held in inspector.leases()] == [first, second]
    assert sorted(engine.running_of("a")) == sorted([first, second])
    engine.renew(first, lease.token)
    assert engine.renew_many([(first, lease.token), (second, "gone")]) == {"gone"}
    assert engine.bury(first, lease.token, "why").held
    assert [letter.item_id for letter in inspector.dead_letters()] == [first]
    assert engine.requeue([first])[0] == [first]
    cancelled = engine.cancel([second, third])
    assert (cancelled.waiting, cancelled.running) == ((third,), (second,))
    assert engine.is_cancelled(second)
    assert engine.release(second, other.token).held
    (lease,) = engine.lease().items
    assert engine.retry(first, lease.token, delay_seconds=0, retries=1, body=b"again").held
    assert engine.was_retried(first, 0)
    assert list(engine.delayed_of("a", 10)) == [[first]]
    (lease,) = engine.lease().items
    assert engine.ack(first, lease.token).held
    assert inspector.audit() == []
    assert inspector.depth().waiting == 0


def test_the_stored_form_is_short(engine, redis_client):
    item_id = uuid.uuid4()
    engine.enqueue("a", items(str(item_id)))
    assert redis_client.hkeys("vtrr:q:task") == [b"\xff" + item_id.bytes]
