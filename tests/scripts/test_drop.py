"""drop.lua forgets dead letters."""

import pytest

from tests.clock import START_MS


@pytest.fixture
def letters(scripts):
    """Dead letters a1 and b1."""
    for partition, item_id in (("a", "a1"), ("b", "b1")):
        scripts.put(partition, item_id)
        scripts.take(item_id)
        scripts.call("bury", item_id, item_id=item_id)


@pytest.mark.usefixtures("letters")
def test_letters_are_forgotten(scripts):
    """The last one leaves nothing; what was no letter is passed over."""
    assert scripts.call("drop", "e", "x", "a1") == ["dropped", b"e", START_MS, 0, 0, b"", b"a1"]
    assert scripts.twice("drop", "e", "b1")[6:] == [b"b1"]
    assert scripts.stored() == {}


@pytest.mark.usefixtures("letters")
def test_only_a_partition(scripts):
    assert scripts.call("drop", "e", "a1", "b1", only="b")[6:] == [b"b1"]
    assert [letter.item_id for letter in scripts.inspector.dead_letters()] == ["a1"]


@pytest.mark.usefixtures("letters")
def test_items_are_left_alone(scripts):
    scripts.put("a", "a1", "a2")
    assert scripts.call("drop", "e", "a1", "a2")[6:] == []
    assert set(scripts.stored()["task"]) == {b"a1", b"a2"}


def test_it_refuses_keys_of_another_layout(scripts, foreign):
    assert scripts.call("drop", "e", "a1") == ["schema", b"e", foreign]
