"""reclaim.lua puts expired leases back, promotes due items and replaces missing triggers."""

import pytest

from tests.clock import LEASE_MS, START_MS

LATER = START_MS + LEASE_MS


def test_expired_and_due_items_wait_again(scripts, clock):
    """Each expiry is counted in its record; what is not due is told as the next wake."""
    scripts.put("a", "a1", "a2")
    scripts.take("t1")
    clock.advance(5)
    scripts.take("t2")
    scripts.put("b", "b1", delay_ms=LEASE_MS - 5)
    clock.advance(LEASE_MS - 5)
    reply = scripts.call("reclaim", "e")
    assert reply == ["reclaimed", b"e", LATER, 0, 2, str(LATER + 5).encode(), 1, 1, 0, 1]
    stored = scripts.stored()
    assert (stored["backlog:a"], stored["backlog:b"]) == ([b"a1"], [b"b1"])
    assert stored["task"][b"a1"] == b" 1  %x 1 aa1!" % START_MS
    assert "running" not in stored  # it is kept while there are policies only


def test_nothing_to_do_changes_nothing(scripts):
    assert scripts.twice("reclaim", "e") == ["reclaimed", b"e", START_MS, 0, 0, b"", 0, 0, 0, 0]
    scripts.put("a", "a1", "a2")
    scripts.take("t1")
    reply = scripts.twice("reclaim", "e")
    assert reply == ["reclaimed", b"e", START_MS, 0, 1, str(LATER).encode(), 0, 0, 0, 0]


def test_it_looks_at_so_many_and_no_more(scripts, clock):
    """Of each kind; who calls comes again when the bound was reached."""
    item_ids = [f"a{n}" for n in range(5)]
    scripts.put("a", *item_ids)
    scripts.take(*(f"t{n}" for n in range(5)))
    scripts.put("b", *(f"b{n}" for n in range(4)), delay_ms=1)
    clock.advance(LEASE_MS)
    seen = [scripts.call("reclaim", "e", most=3)[6:8] for _ in range(3)]
    assert seen == [[3, 3], [2, 1], [0, 0]]
    assert scripts.stored()["backlog:a"] == [item_id.encode() for item_id in item_ids]


@pytest.mark.parametrize(
    ("position", "line"),
    [("back", [b"a4", b"a1", b"a2", b"a3"]), ("front", [b"a1", b"a2", b"a3", b"a4"])],
)
def test_expired_items_keep_their_order(scripts, clock, position, line):
    """The first to expire is the first to be served again, at the back as in front."""
    scripts.put("a", "a1", "a2", "a3", "a4")
    for token in ("t3", "t2", "t1"):
        scripts.take(token)
        clock.advance(1)
    clock.advance(LEASE_MS)
    scripts.call("reclaim", "e", position=position)
    assert scripts.stored()["backlog:a"] == line


def test_a_partition_pays_again_for_a_second_run(scripts, clock):
    """The charge of the run that expired stands."""
    scripts.put("a", "a1", weight=3)
    scripts.take("t1")
    clock.advance(LEASE_MS)
    scripts.call("reclaim", "e")
    assert scripts.stored()["queue"] == {b"a": 3.0}
    scripts.take("t2")
    assert scripts.stored()["partition_virtual_time"] == {b"a": 6.0}


def test_the_last_timeout_allowed_makes_a_dead_letter(scripts, clock):
    """It is counted among the expired, and again by itself."""
    scripts.put("a", "a1", "a2")
    for turn in (1, 2):
        scripts.take(f"t{turn}", f"u{turn}")
        clock.advance(LEASE_MS)
        reply = scripts.call("reclaim", "e", bounds="2 9 1000000000")
        assert reply[6:] == [2, 0, 0 if turn == 1 else 2, 2]
    letters = scripts.inspector.dead_letters()
    assert [letter.item_id for letter in letters] == ["a2", "a1"]
    assert {letter.reason for letter in letters} == {
        "max_timeouts: 2 lost runs, the last one: its lease ended"
    }
    assert scripts.stored().keys() == {"schema", "dead", "dead_index"}


def test_letters_older_than_the_bound_go(scripts, clock):
    """Also from a queue that is idle, which holds nothing then."""
    scripts.put("a", "a1")
    scripts.take("t")
    scripts.call("bury", "t", item_id="a1")
    clock.advance(101)
    scripts.call("reclaim", "e", bounds="0 9 101")
    assert "dead" in scripts.stored()
    scripts.twice("reclaim", "e", bounds="0 9 100")
    assert scripts.stored() == {}


def test_it_replaces_missing_triggers(scripts):
    """A repeated call names the same ones."""
    scripts.put("a", "a1", "a2", "a3")
    reply = scripts.twice("reclaim", "e", triggers_most=2, triggers_prefix="x")
    assert reply[3:5] == [2, 3]
    assert set(scripts.stored()["triggers"]) == {b"x-1", b"x-2"}


def test_it_forgets_lost_triggers_of_an_empty_queue(scripts, clock):
    """They would stand in the ledger of an idle queue for ever."""
    scripts.put("a", "a1")
    scripts.call("reclaim", "e", triggers_most=2, triggers_timeout=1000, triggers_prefix="x")
    scripts.take("t")
    scripts.call("ack", "t", item_id="a1")
    clock.advance(1001)
    scripts.call("reclaim", "f", triggers_most=2, triggers_timeout=1000, triggers_prefix="y")
    assert "triggers" not in scripts.stored()


def test_it_tells_those_who_listen(scripts, clock, heard):
    """Only when something became servable."""
    scripts.put("a", "a1", delay_ms=10)
    scripts.call("reclaim", "e", channel="wake")
    assert heard() == []
    clock.advance(10)
    scripts.call("reclaim", "e", channel="wake")
    assert heard() == [b"ready"]


def test_it_refuses_keys_of_another_layout(scripts, foreign):
    assert scripts.call("reclaim", "e") == ["schema", b"e", foreign]
