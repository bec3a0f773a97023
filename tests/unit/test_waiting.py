"""Waiting ends with a value or with what was last seen."""

import pytest

from tests.waiting import eventually


def test_it_returns_the_first_true_value():
    values = iter([0, None, 7, 8])
    assert eventually(lambda: next(values)) == 7


def test_a_failed_assertion_is_not_yet():
    values = iter([1, 2])

    def predicate():
        assert next(values) == 2
        return True

    assert eventually(predicate)


def test_it_says_what_was_last_seen():
    with pytest.raises(AssertionError, match=r"three: not within 0.05 s, last seen: \[\]"):
        eventually(list, timeout=0.05, what="three")
