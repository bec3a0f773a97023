"""cancel.lua takes items back: what waits goes, what runs does not run again."""

import pytest

from tests.clock import LEASE_MS, START_MS


def cancel(scripts, *item_ids):
    """Ids and states that the script names."""
    reply = scripts.twice("cancel", "e", *item_ids)
    assert reply[:6] == ["cancelled", b"e", START_MS, 0, 0, b""]
    return {a.decode(): b.decode() for a, b in zip(reply[6::2], reply[7::2], strict=True)}


def test_waiting_and_delayed_items_go_at_once(scripts):
    scripts.put("a", "a1", "a2", "a3")
    scripts.put("a", "a4", delay_ms=500)
    assert cancel(scripts, "a2", "a4") == {"a2": "waiting", "a4": "waiting"}
    assert scripts.take("t1", "t2", "t3") == ["a1", "a3"]


def test_the_last_one_takes_everything_with_it(scripts):
    scripts.put("a", "a1", "a2")
    scripts.put("b", "b1", weight="1@2")
    cancel(scripts, "a2", "a1", "b1")
    assert scripts.stored() == {}


def test_a_partition_with_nothing_else_leaves_the_queue(scripts):
    """It is not in the way of others, and comes back with the next item."""
    scripts.put("a", "a1", "a2")
    scripts.put("b", "b1", "b2")
    cancel(scripts, "a1", "a2")
    assert scripts.take("t1") == ["b1"]
    scripts.put("a", "a3")
    assert sorted(scripts.take("t2", "t3", "t4")) == ["a3", "b2"]


def test_an_id_that_comes_again_waits_at_the_end(scripts):
    """Its old place in the backlog is not its own any more."""
    scripts.put("a", "a1", "a2", "a3")
    cancel(scripts, "a2")
    scripts.put("a", "a2")
    assert scripts.take("t1", "t2", "t3") == ["a1", "a3", "a2"]


def test_delayed_items_keep_their_order_when_one_goes(scripts, clock):
    """One that is set aside later for the same moment stays behind those of before."""
    for item_id in ("a9", "a8", "a7"):
        scripts.put("a", item_id, delay_ms=500)
    cancel(scripts, "a9")
    scripts.put("a", "a1", delay_ms=500)
    clock.advance(500)
    assert scripts.take("t1", "t2", "t3") == ["a8", "a7", "a1"]


def test_an_id_that_comes_again_leaves_its_old_priority(scripts):
    """A priority without items is not looked at any more."""
    scripts.put("a", "a1", weight="1@3")
    scripts.put("a", "a2", "a3", weight="1@7")
    cancel(scripts, "a1", "a3")
    scripts.put("a", "a1", "a3")
    assert scripts.take("t1", "t2", "t3", "t4") == ["a1", "a3", "a2"]


def test_more_cancelled_ids_than_one_lease_skips(scripts):
    """A worker that gets nothing is told to come again at once."""
    ids = [f"a{n:04d}" for n in range(2000)]
    scripts.put("a", "first", *ids, "last")
    for at in range(0, 2000, 200):
        scripts.call("cancel", "e", *ids[at : at + 200])
    assert scripts.take("t1") == ["first"]
    reply = scripts.call("lease", "t2", "t2")
    assert (reply[0], reply[5]) == ("empty", str(START_MS).encode())
    assert scripts.take("t2") == ["last"]


@pytest.mark.parametrize("end", ["ack", "release", "retry", "bury", "expiry"])
def test_a_running_item_does_not_run_again(scripts, clock, end):
    """Whatever becomes of its run."""
    scripts.put("a", "a1")
    scripts.put("b", "b1")
    scripts.take("t1", "t2")
    assert cancel(scripts, "a1") == {"a1": "running"}
    if end == "expiry":
        clock.advance(LEASE_MS)
        scripts.call("reclaim", "e")
        assert scripts.take("t3", "t4") == ["b1"]
        scripts.call("ack", "t3", item_id="b1")
    else:
        assert scripts.call(end, "t1", item_id="a1")[0] not in {"lost", "schema"}
        assert scripts.take("t3") == []
        scripts.call("ack", "t2", item_id="b1")
    assert scripts.stored() == {}


def test_unknown_ids_are_passed_over(scripts):
    scripts.put("a", "a1")
    assert scripts.call("cancel", "e", "nobody")[6:] == []
    assert scripts.stored()["schema"] == b"5"


def test_other_keys_are_left_alone(scripts, foreign):
    assert scripts.call("cancel", "e", "a1") == ["schema", b"e", foreign]
