"""set_policy.lua changes what a partition or the queue may do, at once."""

import pytest

from tests.clock import START_MS

SET = ["set", b"e", START_MS, 0, 0, b""]


def ask(scripts, partition, *changes, **arguments):
    return scripts.twice("set_policy", "e", *changes, partition=partition, **arguments)


def test_a_policy_is_kept_while_it_says_something(scripts):
    """What is open again is forgotten, and the layout number with it."""
    assert ask(scripts, "a", "share", "2.0", "cap", "3") == SET
    assert scripts.stored() == {
        "policy": {b"a": b"2.0 3 - - - - - -"}, "schema": b"5p",
    }  # fmt: skip
    ask(scripts, "a", "cap", "-")
    ask(scripts, "a", "share", "-")
    assert scripts.stored() == {}


def test_a_share_acts_on_what_waits_already(scripts):
    scripts.put("a", *(f"a{n}" for n in range(9)))
    scripts.put("b", *(f"b{n}" for n in range(9)))
    ask(scripts, "a", "share", "3")
    names = [scripts.take(f"t{n}")[0][0] for n in range(8)]
    assert "".join(sorted(names)) == "aaaaaabb"


def test_a_capped_partition_leaves_the_queue_and_comes_back(scripts):
    """A lower cap blocks new leases only; the next ack that makes room lets it in."""
    scripts.put("a", "a1", "a2", "a3", "a4")
    scripts.take("t1", "t2")
    ask(scripts, "a", "cap", "1")
    assert scripts.take("t3") == []
    scripts.call("ack", "t1", item_id="a1")
    assert scripts.take("t3") == []
    scripts.call("ack", "t2", item_id="a2")
    assert scripts.take("t3", "t4") == ["a3"]
    ask(scripts, "a", "cap", "-")
    assert scripts.take("t4") == ["a4"]


def test_a_default_cap_acts_on_those_that_run(scripts):
    scripts.put("a", "a1", "a2", "a3")
    scripts.put("b", "b1", "b2", "b3")
    assert scripts.take("t1") == ["a1"]
    ask(scripts, "", "cap", "1")
    assert scripts.take("t2", "t3") == ["b1"]
    ask(scripts, "b", "cap", "2")
    assert scripts.take("t3", "t4") == ["b2"]
    ask(scripts, "", "cap", "-")
    assert scripts.take("t4", "t5") == ["a2", "a3"]


def test_a_paused_partition_is_not_served(scripts):
    scripts.put("a", "a1")
    scripts.put("b", "b1")
    ask(scripts, "a", "paused", "1")
    assert scripts.take("t1", "t2") == ["b1"]
    ask(scripts, "a", "paused", "-")
    assert scripts.take("t2") == ["a1"]


def test_a_paused_queue_gives_nothing(scripts):
    """It asks for no trigger either."""
    scripts.put("a", "a1")
    ask(scripts, "", "paused", "1", triggers_most=4)
    assert scripts.take("t1", triggers_most=4) == []
    assert scripts.put("a", "a2", triggers_most=4)[3:] == []
    assert ask(scripts, "", "paused", "-", triggers_most=4)[3] == 2
    assert scripts.take("t1") == ["a1"]


def test_a_held_partition_wakes_by_itself(scripts, clock):
    """The reply says when; the hold is forgotten then."""
    scripts.put("a", "a1")
    reply = scripts.call("set_policy", "e", "hold", "500", partition="a")
    assert reply[5] == str(START_MS + 500).encode()
    assert scripts.take("t1") == []
    clock.advance(499)
    assert scripts.take("t1") == []
    clock.advance(1)
    assert scripts.take("t1") == ["a1"]
    scripts.call("ack", "t1", item_id="a1")
    assert scripts.stored() == {}


def test_a_hold_ends_early(scripts):
    scripts.put("a", "a1")
    scripts.call("set_policy", "e", "hold", "500", partition="a")
    ask(scripts, "a", "hold", "0")
    assert scripts.take("t1") == ["a1"]


def test_a_rate_lets_a_burst_through_and_then_spreads(scripts, clock):
    ask(scripts, "a", "interval", "100", "tolerance", "200", "by", "items")
    scripts.put("a", *(f"a{n}" for n in range(9)))
    assert scripts.take("t1", "t2", "t3", "t4") == ["a0", "a1", "a2"]
    for n in range(3, 6):
        clock.advance(99)
        assert scripts.take("none") == []
        clock.advance(1)
        assert scripts.take(f"t{n + 1}", "none") == [f"a{n}"]


def test_a_default_rate_that_is_lifted_wakes_who_waits_for_it(scripts):
    """Nobody sleeps on for the hour that it would have taken."""
    ask(scripts, "", "interval", "3600000", "tolerance", "0")
    scripts.put("a", "a1", "a2")
    assert scripts.take("t1", "t2") == ["a1"]
    ask(scripts, "", "interval", "-")
    assert scripts.take("t2") == ["a2"]


def test_a_rate_that_is_set_again_forgets_nothing(scripts):
    """As each process does that starts, and an app that sets its plans again and again."""
    for partition, field in (("a", "interval"), ("", "total_interval")):
        for n in range(3):
            ask(scripts, partition, field, "3600000")
            scripts.put("a", f"{field}{n}")
            assert len(scripts.take(f"t{field}{n}")) == (n == 0)
        ask(scripts, partition, field, "-")
        scripts.call("purge", "e", partition="a", most=9)
        scripts.call("ack", f"t{field}0", item_id=f"{field}0")


def test_a_faster_rate_does_not_wait_for_the_slower_one(scripts, clock):
    """Nor one that comes from the defaults, whatever was used of the old one."""
    for partition in ("a", ""):
        ask(scripts, partition, "interval", "3600000", "tolerance", "0")
        scripts.put("a", "a1", "a2", "a3")
        assert scripts.take("t1", "t2") == ["a1"]
        ask(scripts, partition, "interval", "100")
        clock.advance(100)
        assert scripts.take("t2", "t3") == ["a2"]
        clock.advance(100)
        assert scripts.take("t3") == ["a3"]
        for n in (1, 2, 3):
            scripts.call("ack", f"t{n}", item_id=f"a{n}")
        ask(scripts, partition, "interval", "-", "tolerance", "-")
        clock.advance(1000)


def test_a_lease_that_gives_less_than_was_asked_says_when_to_come_again(scripts, clock):
    """Slots stay free until then."""
    ask(scripts, "a", "interval", "500", "tolerance", "0")
    scripts.put("a", "a1", "a2")
    reply = scripts.call("lease", "t1", "t1", "t2")
    assert (reply[0], reply[5]) == ("leased", str(START_MS + 500).encode())


def test_a_lease_wakes_as_many_as_it_can_serve(scripts, clock):
    """More than those that every call looks at."""
    for n in range(30):
        scripts.put(f"p{n}", f"i{n}")
        scripts.call("set_policy", "e", "hold", "500", partition=f"p{n}")
    clock.advance(500)
    assert len(scripts.take(*(f"t{n:02d}" for n in range(30)))) == 30


def test_a_rate_counts_weight_where_it_says_so(scripts, clock):
    ask(scripts, "a", "interval", "100", "tolerance", "0", "by", "weight")
    scripts.put("a", "a1", "a2", weight=3)
    assert scripts.take("t1", "t2") == ["a1"]
    clock.advance(299)
    assert scripts.take("t2") == []
    clock.advance(1)
    assert scripts.take("t2") == ["a2"]


def test_an_empty_queue_does_not_forget_what_was_used_of_a_rate(scripts, clock):
    """Otherwise a queue that runs dry between two items would have no rate."""
    ask(scripts, "a", "interval", "1000", "tolerance", "0")
    scripts.put("a", "a1")
    assert scripts.take("t1") == ["a1"]
    scripts.call("ack", "t1", item_id="a1")
    scripts.put("a", "a2")
    assert scripts.take("t2") == []
    clock.advance(1000)
    assert scripts.take("t2") == ["a2"]
    assert scripts.redis_client.pttl(scripts.keys["rate"]) == -1


def test_the_queue_has_a_rate_and_a_ceiling_of_its_own(scripts, clock):
    scripts.put("a", "a1", "a2")
    scripts.put("b", "b1", "b2")
    ask(scripts, "", "max_in_flight", "3")
    assert len(scripts.take("t1", "t2", "t3", "t4")) == 3
    ask(scripts, "", "max_in_flight", "-", "total_interval", "100", "total_tolerance", "0")
    assert len(scripts.take("t4")) == 1
    scripts.put("c", "c1")
    assert scripts.take("t5") == []
    clock.advance(100)
    assert scripts.take("t5") == ["c1"]


@pytest.mark.parametrize(
    ("field", "value"), [("colour", "1"), ("share", "0"), ("cap", "inf"), ("share", "nan")]
)
def test_what_is_no_policy_is_refused(scripts, field, value):
    """Nothing is changed."""
    reply = scripts.call("set_policy", "e", field, value, partition="a")
    assert reply == ["policy", b"e", START_MS, 0, 0, b"", field.encode(), value.encode()]
    assert scripts.stored() == {}


def test_workers_hear_of_a_change(scripts, heard):
    scripts.put("a", "a1")
    scripts.call("set_policy", "e", "cap", "1", partition="a", channel="wake", hint="later")
    assert heard() == [b"later"]


def test_other_keys_are_left_alone(scripts, foreign):
    reply = scripts.call("set_policy", "e", "cap", "1", partition="a")
    assert reply == ["schema", b"e", foreign]
