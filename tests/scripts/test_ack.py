"""ack.lua finishes an item while its token holds it."""

import pytest

from tests.clock import LEASE_MS, START_MS

LOST = ["lost", b"t1", 0, 0, 0, b""]


def test_a_finished_item_is_gone(scripts):
    """Its record and its lease go; what else waits and runs stays."""
    scripts.put("a", "a1", "a2", "a3")
    scripts.take("t1", "t2")
    assert scripts.twice("ack", "t1", item_id="a1") == ["acked", b"t1", 0]
    stored = scripts.stored()
    assert set(stored["task"]) == {b"a2", b"a3"}
    assert "running" not in stored  # it is kept while there are policies only
    assert set(stored["lease"]) == set(stored["inflight"]) == {b"t2"}


def test_the_last_ack_leaves_nothing_behind(scripts):
    """At rest no key of the queue is left, no tag and no layout number either."""
    scripts.put("a", "a1", weight=9)
    scripts.put("b", "b1", weight=9)
    scripts.take("t1", "t2")
    scripts.call("ack", "t1", item_id="a1")
    assert "partition_virtual_time" in scripts.stored()
    scripts.twice("ack", "t2", item_id="b1")
    assert scripts.stored() == {}


def test_dead_letters_keep_the_layout_number(scripts):
    """They are still to be read after the queue has come to rest."""
    scripts.put("a", "a1", "a2")
    scripts.take("t1", "t2")
    scripts.call("bury", "t1", item_id="a1")
    scripts.call("ack", "t2", item_id="a2")
    assert set(scripts.stored()) == {"dead", "dead_index", "schema"}


@pytest.mark.parametrize(
    ("token", "item_id"), [("t9", "a1"), ("t1", "a2"), ("t1", "nobody"), ("", "a1")]
)
def test_a_token_that_does_not_hold_the_item_changes_nothing(scripts, token, item_id):
    scripts.put("a", "a1", "a2", "a3")
    scripts.take("t1", "t2")
    before = scripts.stored()
    assert scripts.call("ack", token, item_id=item_id)[0] == "lost"
    assert scripts.stored() == before


def test_a_stale_token_changes_nothing(scripts, clock):
    """A worker whose item was given to another can't finish it, however often it tries."""
    scripts.put("a", "a1")
    scripts.take("t1")
    clock.advance(LEASE_MS)
    scripts.take("t2")
    before = scripts.stored()
    for replay in (0, 1):
        assert scripts.call("ack", "t1", item_id="a1", replay=replay)[0] == "lost"
    assert scripts.stored() == before
    assert scripts.call("ack", "t2", item_id="a1")[0] == "acked"


def test_a_second_ack_is_lost(scripts):
    """Unlike a repeated call it is a new one: the item is finished already."""
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.call("ack", "t1", item_id="a1")
    assert scripts.call("ack", "t1", item_id="a1") == LOST


def test_a_repeated_ack_does_not_touch_a_new_item_of_the_same_id(scripts):
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.call("ack", "t1", item_id="a1")
    scripts.put("a", "a1")
    before = scripts.stored()
    assert scripts.call("ack", "t1", item_id="a1", replay=1) == LOST
    assert scripts.stored() == before


def test_it_sends_missing_triggers(scripts):
    """A repeated call names the same ones."""
    scripts.put("a", "a1", "a2", "a3")
    scripts.take("t1")
    reply = scripts.twice("ack", "t1", item_id="a1", triggers_most=3, triggers_prefix="x")
    assert reply == ["acked", b"t1", START_MS, 2, 2, b""]
    assert set(scripts.stored()["triggers"]) == {b"x-1", b"x-2"}


def test_it_refuses_keys_of_another_layout(scripts, foreign):
    assert scripts.call("ack", "t1", item_id="a1") == ["schema", b"t1", foreign]
