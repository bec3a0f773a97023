"""release.lua gives a leased item back before its lease ends."""

import pytest

from tests.clock import LEASE_MS, START_MS
from tests.stored import record


@pytest.mark.parametrize(
    ("position", "line"), [("front", [b"a1", b"a2"]), ("back", [b"a2", b"a1"])]
)
def test_the_item_waits_again(scripts, position, line):
    """First or last of its partition; nothing is counted and the charge stands."""
    scripts.put("a", "a1", "a2")
    scripts.take("t1")
    reply = scripts.twice("release", "t1", item_id="a1", position=position)
    assert reply == ["released", b"t1", START_MS, 0, 0, b""]
    stored = scripts.stored()
    assert stored["backlog:a"] == line
    assert stored["task"][b"a1"] == record("a", b"a1!", START_MS)
    assert stored["queue"] == {b"a": 1.0}
    assert not stored.keys() & {"lease", "inflight", "running"}


def test_a_timeout_is_counted_when_asked(scripts):
    """Once, also when the call is repeated."""
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.twice("release", "t1", item_id="a1", timed_out=1)
    assert scripts.stored()["task"][b"a1"] == b" 1  %x 1 aa1!" % START_MS


def test_the_last_timeout_allowed_makes_a_dead_letter(scripts):
    """It says how the run ended, and counts it."""
    scripts.put("a", "a1", "a2")
    for n in (1, 2):
        scripts.take(f"t{n}")
        reply = scripts.twice(
            "release", f"t{n}", item_id="a1", timed_out=1, position="front",
            why="shot", bounds="2 9 1000000",
        )  # fmt: skip
    assert reply == ["buried", b"t2", START_MS, 0, 0, b""]
    (letter,) = scripts.inspector.dead_letters()
    assert letter.reason == "max_timeouts: 2 lost runs, the last one: shot"
    assert (letter.item_id, letter.timeouts, letter.body) == ("a1", 2, b"a1!")
    assert letter.started_at_ms == START_MS
    assert scripts.stored()["backlog:a"] == [b"a2"]


def test_what_is_not_counted_makes_no_dead_letter(scripts):
    scripts.put("a", "a1")
    scripts.take("t1")
    assert scripts.call("release", "t1", item_id="a1", bounds="1 9 1000000")[0] == "released"


def test_the_last_dead_letter_leaves_nothing_else(scripts):
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.twice("release", "t1", item_id="a1", timed_out=1, bounds="1 9 1000000")
    assert scripts.stored().keys() == {"schema", "dead", "dead_index"}


def test_its_partition_is_servable_again(scripts):
    """At the tag it owes, not at the clock."""
    scripts.put("a", "a1", weight=4)
    scripts.take("t1")
    scripts.call("release", "t1", item_id="a1")
    stored = scripts.stored()
    assert stored["queue"] == {b"a": 4.0}
    assert "partition_virtual_time" not in stored


def test_a_token_that_does_not_hold_the_item_changes_nothing(scripts, clock):
    scripts.put("a", "a1", "a2")
    scripts.take("t1", "t2")
    assert scripts.call("release", "t2", item_id="a1") == ["lost", b"t2", START_MS, 0, 0, b""]
    assert scripts.call("release", "t2", item_id="a1", replay=1)[0] == "lost"
    clock.advance(LEASE_MS)
    scripts.take("t3", "t4")
    before = scripts.stored()
    assert scripts.call("release", "t1", item_id="a1")[0] == "lost"
    assert scripts.stored() == before


def test_a_repeated_call_leaves_the_next_lease_alone(scripts):
    """The item was given on after the first call, of which the reply was lost."""
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.call("release", "t1", item_id="a1")
    scripts.take("t2")
    before = scripts.stored()
    assert scripts.call("release", "t1", item_id="a1", replay=1)[0] == "released"
    assert scripts.stored() == before


def test_it_sends_missing_triggers(scripts):
    """A repeated call names the same ones, for nobody has published them."""
    scripts.put("a", "a1", "a2")
    scripts.take("t1")
    reply = scripts.twice("release", "t1", item_id="a1", triggers_most=5, triggers_prefix="x")
    assert reply[3:5] == [2, 2]
    assert set(scripts.stored()["triggers"]) == {b"x-1", b"x-2"}


def test_it_tells_those_who_listen(scripts, heard):
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.call("release", "t9", item_id="a1", channel="wake")
    assert heard() == []
    scripts.call("release", "t1", item_id="a1", channel="wake")
    assert heard() == [b"ready"]


def test_it_refuses_keys_of_another_layout(scripts, foreign):
    assert scripts.call("release", "t1", item_id="a1") == ["schema", b"t1", foreign]
