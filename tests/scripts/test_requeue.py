"""requeue.lua makes dead letters items again."""

import pytest

from tests.clock import START_MS

MOST = {"triggers_most": 2}


@pytest.fixture
def letters(scripts):
    """Dead letters a1 and a2 of partition a, and b1 of b, each with a timeout behind it."""
    scripts.put("a", "a1", "a2", weight=2)
    scripts.put("b", "b1")
    tokens = ("t1", "t2", "t3")
    for token, item_id in zip(tokens, scripts.take(*tokens), strict=True):
        scripts.call("release", token, item_id=item_id, timed_out=1)
    for item_id, token in zip(scripts.take("t4", "t5", "t6"), ("t4", "t5", "t6"), strict=True):
        scripts.call("bury", token, item_id=item_id)


@pytest.mark.usefixtures("letters")
def test_letters_become_items(scripts):
    """In the order asked for, with nothing counted; triggers are asked for."""
    reply = scripts.twice("requeue", "e", "a2", "b1", "a1", **MOST)
    assert reply == ["requeued", b"e", START_MS, 2, 3, b"", b"a2", b"b1", b"a1"]
    stored = scripts.stored()
    assert stored["backlog:a"] == [b"a2", b"a1"]
    assert stored["task"][b"a1"] == b"2   %x 1 aa1!" % START_MS
    assert set(stored["queue"]) == {b"a", b"b"}
    assert not stored.keys() & {"dead", "dead_index"}


@pytest.mark.usefixtures("letters")
def test_only_a_partition(scripts):
    assert scripts.call("requeue", "e", "a1", "b1", "a2", only="a")[6:] == [b"a1", b"a2"]
    assert [letter.item_id for letter in scripts.inspector.dead_letters()] == ["b1"]


@pytest.mark.usefixtures("letters")
def test_an_id_that_is_no_letter_is_passed_over(scripts):
    """Also one that comes twice, and one that waits by now."""
    scripts.put("c", "b1")
    assert scripts.call("requeue", "e", "a1", "x", "a1", "b1")[6:] == [b"a1"]
    assert scripts.call("requeue", "e", "a1")[6:] == []


@pytest.mark.usefixtures("letters")
def test_workers_are_told(scripts, heard):
    scripts.call("requeue", "e", "x", channel="wake")
    assert heard() == []
    scripts.call("requeue", "e", "a1", channel="wake")
    assert heard() == [b"ready"]


def test_it_refuses_keys_of_another_layout(scripts, foreign):
    assert scripts.call("requeue", "e", "a1") == ["schema", b"e", foreign]
