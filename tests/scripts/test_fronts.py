"""fronts.lua tells since when the first item of a partition could be served."""

import pytest

from tests.clock import START_MS


def since(scripts, *partitions):
    reply = scripts.call("fronts", "e", *partitions)
    assert reply[:2] == ["fronts", b"e"]
    assert reply[3:6] == [0, 0, b""]
    return [int(text) if text else None for text in reply[6:]]


def test_each_partition_has_its_own(scripts, clock):
    """Of what nothing waits in, nothing is told; nothing is written."""
    scripts.put("a", "a1")
    clock.advance(500)
    scripts.put("a", "a2")
    scripts.put("b", "b1")
    before = scripts.stored()
    assert since(scripts, "b", "none", "a") == [START_MS + 500, None, START_MS]
    assert scripts.stored() == before


def test_the_oldest_of_all_priorities(scripts, clock):
    scripts.put("a", "late", weight="1@9")
    clock.advance(10)
    scripts.put("a", "first", weight="1@0")
    scripts.put("a", "plain")
    assert since(scripts, "a") == [START_MS]


def test_what_was_delayed_counts_from_its_time(scripts, clock):
    scripts.put("a", "a1", delay_ms=300)
    assert since(scripts, "a") == [None]
    clock.advance(1000)
    scripts.call("reclaim", "e")
    assert since(scripts, "a") == [START_MS + 300]


@pytest.mark.usefixtures("clock")
def test_it_refuses_keys_of_another_layout(scripts, foreign):
    assert scripts.call("fronts", "e", "a") == ["schema", b"e", foreign]
