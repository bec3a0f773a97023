"""Calls that are sent in one round trip run in their order."""

from tests.queues import items


def test_a_script_the_server_lacks_is_not_run_behind_the_others(redis_client, engine):
    """An ack comes before the lease sent with it, or a worker would hold one item too many."""
    engine.enqueue("A", items("a1", "a2"))
    (first,) = engine.lease().items
    redis_client.script_flush()
    (second,) = engine.lease().items
    ack, _ = engine.ack_call(first.item_id, first.token)
    again, _ = engine.ack_call(second.item_id, second.token)
    lease, read = engine.lease_call(engine.new_tokens(1), holder="")
    *_, reply = engine.client.call_many([ack, again, lease])
    nothing = read(reply)
    assert nothing.items == ()
    assert nothing.wake.next_wake_ms is None, "the lease saw an item that was acked before it"
