"""purge.lua forgets what waits in a partition, a bounded number at once."""

from tests.clock import START_MS


def purge(scripts, partition="a", most=100, **arguments):
    return scripts.call("purge", "e", partition=partition, most=most, **arguments)


def test_the_last_item_takes_everything_with_it(scripts):
    scripts.put("a", "a1", "a2")
    assert purge(scripts) == ["purged", b"e", START_MS, 0, 0, b"", 2, 2]
    assert scripts.stored() == {}


def test_it_takes_so_many_and_leaves_others_alone(scripts):
    """What runs goes on, other partitions wait as before."""
    scripts.put("a", *(f"a{n}" for n in range(5)))
    scripts.put("b", "b1")
    assert scripts.take("t1") == ["a0"]
    assert purge(scripts, most=3)[6:] == [3, 3]
    assert purge(scripts, most=3)[6:] == [1, 1]
    assert purge(scripts, most=3)[6:] == [0, 0]
    assert scripts.take("t2", "t3") == ["b1"]
    assert scripts.call("ack", "t1", item_id="a0")[0] == "acked"


def test_each_priority_goes_in_its_turn(scripts):
    scripts.put("a", "a1", "a2", weight="1@7")
    scripts.put("a", "a3")
    scripts.put("b", "b1")
    assert [purge(scripts)[6] for _ in range(3)] == [1, 2, 0]


def test_cancelled_ids_are_not_counted(scripts):
    scripts.put("a", "a1", "a2", "a3")
    scripts.put("b", "b1")
    scripts.call("cancel", "e", "a2")
    assert purge(scripts)[6:] == [2, 3]
    assert "holes" not in scripts.stored()


def test_a_repeated_call_takes_nothing_more(scripts):
    """The first one took its part; the caller goes on while there is something."""
    scripts.put("a", "a1", "a2")
    assert purge(scripts, most=1, replay=1)[6:] == [0, 1]
    assert purge(scripts, "b", replay=1)[6:] == [0, 0]
    assert scripts.take("t1") == ["a1"]


def test_other_keys_are_left_alone(scripts, foreign):
    assert purge(scripts) == ["schema", b"e", foreign]
