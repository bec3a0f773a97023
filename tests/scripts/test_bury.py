"""bury.lua moves a leased item to the dead letters."""

from tests.clock import LEASE_MS, START_MS
from tests.stored import record
from vtrr_queue.model import DeadLetter


def test_the_item_is_kept_with_its_reason(scripts):
    """It no longer waits nor runs; its record is kept to the byte."""
    scripts.put("acme", "one", "two", weight=2)
    scripts.take("t1")
    scripts.call("release", "t1", item_id="one", timed_out=1, position="front")
    scripts.take("t2")
    reply = scripts.twice("bury", "t2", item_id="one", note="пробел и 1 2 3\0boom()\0line 1")
    assert reply == ["buried", b"t2", START_MS, 0, 0, b""]
    assert scripts.inspector.dead_letters() == [
        DeadLetter(
            "one",
            "acme",
            "пробел и 1 2 3",
            START_MS,
            1,
            0,
            2.0,
            b"one!",
            exception="boom()",
            traceback="line 1",
            started_at_ms=START_MS,
        )
    ]
    assert set(scripts.stored()["task"]) == {b"two"}


def test_the_last_burial_leaves_dead_letters_only(scripts):
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.twice("bury", "t1", item_id="a1", note="\0\0")
    assert scripts.stored() == {
        "schema": b"5x",
        "dead": {b"a1": b"%d 16 \0\0\0%d" % (START_MS, START_MS) + record("a", b"a1!", START_MS)},
        "dead_index": {b"a1": START_MS},
    }


def test_a_token_that_does_not_hold_the_item_changes_nothing(scripts, clock):
    scripts.put("a", "a1", "a2")
    scripts.take("t1", "t2")
    assert scripts.call("bury", "t2", item_id="a1") == ["lost", b"t2", START_MS, 0, 0, b""]
    clock.advance(LEASE_MS)
    scripts.take("t3", "t4")
    before = scripts.stored()
    for replay in (0, 1):
        assert scripts.call("bury", "t1", item_id="a1", replay=replay)[0] == "lost"
    assert scripts.stored() == before


def test_a_second_burial_is_lost(scripts):
    """Unlike a repeated call it is a new one."""
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.call("bury", "t1", item_id="a1")
    assert scripts.call("bury", "t1", item_id="a1")[0] == "lost"


def test_a_letter_of_an_earlier_release_can_be_read(scripts):
    """It has a reason only."""
    scripts.redis_client.hset(scripts.keys["dead"], "a1", b"%d 4 gone    1 aa1!" % START_MS)
    scripts.redis_client.zadd(scripts.keys["dead_index"], {"a1": START_MS})
    (letter,) = scripts.inspector.dead_letters()
    assert (letter.reason, letter.exception, letter.started_at_ms) == ("gone", "", None)
    assert (letter.partition, letter.body) == ("a", b"a1!")


def test_the_oldest_letters_beyond_the_bound_go(scripts, clock):
    scripts.put("a", "a1", "a2", "a3")
    scripts.take("t1", "t2", "t3")
    for n in (1, 2, 3):
        clock.advance(1)
        scripts.call("bury", f"t{n}", item_id=f"a{n}", bounds="0 2 1000000")
    assert [letter.item_id for letter in scripts.inspector.dead_letters()] == ["a3", "a2"]


def test_letters_older_than_the_bound_go(scripts, clock):
    """One that is just as old as the bound stays."""
    scripts.put("a", "a1", "a2", "a3")
    scripts.take("t1", "t2", "t3")
    for n, pause_ms in ((1, 51), (2, 100), (3, 0)):
        scripts.call("bury", f"t{n}", item_id=f"a{n}", bounds="0 9 100")
        clock.advance(pause_ms)
    assert [letter.item_id for letter in scripts.inspector.dead_letters()] == ["a3", "a2"]


def test_it_refuses_keys_of_another_layout(scripts, foreign):
    assert scripts.call("bury", "t1", item_id="a1") == ["schema", b"t1", foreign]


def test_a_freed_cap_sends_a_trigger(scripts):
    """Else the partition would wait for somebody who comes by."""
    scripts.call("set_policy", "e", "cap", "1", partition="a")
    scripts.put("a", "a1", "a2")
    scripts.take("t1")
    reply = scripts.twice("bury", "t1", item_id="a1", triggers_most=4)
    assert reply == ["buried", b"t1", START_MS, 1, 1, b""]


def test_a_cancelled_item_is_dropped(scripts):
    """Nobody wants it back."""
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.call("cancel", "e", "a1")
    assert scripts.call("bury", "t1", item_id="a1")[0] == "dropped"
    assert scripts.stored() == {}
