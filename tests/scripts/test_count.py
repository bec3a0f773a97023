"""count.lua adds what a worker has counted."""

import pytest

from tests.clock import START_MS

MINUTE = START_MS // 60_000


def test_totals_and_charges_are_added(scripts):
    """Once, however often the call is repeated."""
    for echo in ("e1", "e2"):
        reply = scripts.twice("count", echo, "served", 3, "wait:4", 2, "a", 1.5, "b", 2, totals=2)
        assert reply == ["counted", echo.encode(), START_MS]
    stored = scripts.stored()
    assert stored["stats"] == {
        b"served": b"6", b"wait:4": b"4", b"since": b"%d" % START_MS,
    }  # fmt: skip
    assert stored[f"service:{MINUTE}"] == {b"a": b"3", b"b": b"4"}


def test_a_minute_has_a_hash_of_its_own(scripts, clock):
    scripts.call("count", "e1", "a", 1, totals=0)
    clock.advance(60_000)
    scripts.call("count", "e2", "a", 2, totals=0)
    stored = scripts.stored()
    assert stored[f"service:{MINUTE}"] == {b"a": b"1"}
    assert stored[f"service:{MINUTE + 1}"] == {b"a": b"2"}


def test_partitions_beyond_a_thousand_are_summed(scripts):
    """Those that are there already keep their own count."""
    names = [f"p{n}" for n in range(1002)]
    scripts.call("count", "e1", *(word for name in names for word in (name, 1)), totals=0)
    scripts.call("count", "e2", "p1001", 5, "p0", 5, totals=0)
    found = scripts.stored()[f"service:{MINUTE}"]
    assert len(found) == 1001
    assert (found[b""], found[b"p0"]) == (b"7", b"6")


def test_both_end_by_themselves(scripts):
    scripts.call("count", "e1", "served", 1, "a", 1, keep_ms=50_000)
    assert 40_000 < scripts.redis_client.pttl(scripts.keys["stats"]) <= 50_000
    assert 300_000 < scripts.redis_client.pttl(scripts.keys.service(MINUTE)) <= 360_000


def test_another_layout_is_refused(scripts):
    scripts.redis_client.set(scripts.keys["schema"], "9")
    assert scripts.call("count", "e", "served", 1) == ["schema", b"e", b"9"]
    assert "stats" not in scripts.stored()


@pytest.mark.parametrize("counts", [True, False])
def test_lost_runs_and_dead_letters_are_counted_once_workers_count(scripts, counts):
    """A queue whose workers keep no statistics gets no key for them."""
    if counts:
        scripts.call("count", "e", "served", 1)
    scripts.put("a", "a1", "a2")
    scripts.take("t1", "t2")
    scripts.call("release", "t1", item_id="a1", timed_out=1)
    scripts.call("bury", "t2", item_id="a2", note="why\0\0")
    found = scripts.stored().get("stats", {})
    found.pop(b"since", None)
    assert found == ({b"served": b"1", b"timed_out": b"1", b"dead": b"1"} if counts else {})
