"""retry.lua moves a leased item to the delayed set for its Celery retry."""

from tests.clock import LEASE_MS, START_MS


def test_the_item_waits_for_its_time(scripts):
    """With the new payload and count; weight, timeouts and the charge stand."""
    scripts.put("a", "a1", weight=2)
    scripts.take("t1")
    scripts.call("release", "t1", item_id="a1", timed_out=1)
    scripts.take("t2")
    reply = scripts.twice("retry", "t2", item_id="a1", delay_ms=250, retry_count=3, body="new")
    assert reply == ["retried", b"t2", START_MS, 0, 0, str(START_MS + 250).encode()]
    assert scripts.stored() == {
        "schema": b"5d",
        "task": {b"a1": b"2 1 3 %x 1 anew" % (START_MS + 250)},
        "delayed": {b"a1": START_MS + 250},
        "current_virtual_time": b"2",
        "partition_virtual_time": {b"a": 4.0},
    }


def test_without_a_delay_it_is_due_at_once(scripts):
    """Behind what waits already."""
    scripts.put("a", "a1", "a2")
    scripts.take("t1")
    scripts.call("retry", "t1", item_id="a1")
    assert scripts.take("t2", "t3") == ["a2", "a1"]


def test_retries_of_one_time_keep_their_order(scripts, clock):
    """Also among items that were enqueued for that time."""
    scripts.put("a", "z", "y")
    scripts.put("a", "m", delay_ms=10)
    scripts.take("t1", "t2")
    for token, item_id in (("t1", "z"), ("t2", "y")):
        reply = scripts.twice("retry", token, item_id=item_id, delay_ms=10)
        assert reply[5] == str(START_MS + 10).encode()
    clock.advance(10)
    assert scripts.take("t3", "t4", "t5") == ["m", "z", "y"]


def test_a_token_that_does_not_hold_the_item_changes_nothing(scripts, clock):
    """Nor does one whose item was given to another and is running there."""
    scripts.put("a", "a1", "a2")
    scripts.take("t1", "t2")
    assert scripts.call("retry", "t2", item_id="a1") == ["lost", b"t2", START_MS, 0, 0, b""]
    assert scripts.call("retry", "t1", item_id="nobody")[0] == "lost"
    clock.advance(LEASE_MS)
    scripts.take("t3", "t4")
    before = scripts.stored()
    for replay in (0, 1):
        assert scripts.call("retry", "t1", item_id="a1", replay=replay)[0] == "lost"
    assert scripts.stored() == before


def test_a_repeated_call_is_known_when_the_retry_has_begun(scripts):
    """The item was promoted and leased after the first call, of which the reply was lost."""
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.call("retry", "t1", item_id="a1")
    scripts.take("t2")
    before = scripts.stored()
    reply = scripts.call("retry", "t1", item_id="a1", replay=1)
    assert reply == ["retried", b"t1", START_MS, 0, 0, str(START_MS).encode()]
    assert scripts.stored() == before


def test_it_tells_those_who_listen(scripts, heard):
    """Somebody has to come at its time."""
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.call("retry", "t1", item_id="a1", delay_ms=9, channel="wake")
    assert heard() == [b"later"]


def test_it_refuses_keys_of_another_layout(scripts, foreign):
    assert scripts.call("retry", "t1", item_id="a1") == ["schema", b"t1", foreign]
