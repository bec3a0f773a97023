"""What a script need not do is taken out of its text."""

import pytest

from vtrr_queue.lua_text import names_in, with_values, without_dead_branches

CASES = {
    "alone": ("if false then\n  a()\nend\nb()", "b()"),
    "else": ("if false or false then\n  a()\nelse\n  b()\nend", "do\n  b()\nend"),
    "elseif": ("if false then -- why\n  a()\nelseif x then\n  b()\nelse\n  c()\nend",
               "if x then\n  b()\nelse\n  c()\nend"),
    "second": ("if x then\n  a()\nelseif false then\n  b()\nend", "if x then\n  a()\nend"),
    "and": ("if false and f(x) then\n  a()\nend", ""),
    "inside": ("if x then\n  if false then\n    a()\n  end\n  b()\nend", "if x then\n  b()\nend"),
    "deep": ("if false then\n  a()\nelse\n  if false then\n    b()\n  end\n  c()\nend",
             "do\n  c()\nend"),
    "perhaps": ("if false and a or b then\n  c()\nend", "if false and a or b then\n  c()\nend"),
    "not": ("if not false then\n  c()\nend", "if not false then\n  c()\nend"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_branches_that_are_never_taken_go(before, after):
    assert without_dead_branches(before) == after


def test_an_if_without_an_end_is_refused():
    with pytest.raises(ValueError, match="no end for 'if false then'"):
        without_dead_branches("if false then\n  a()")


def test_values_stand_for_whole_names_only():
    assert with_values("A + AB + A_B - A", {"A": "KEYS[1]"}) == "KEYS[1] + AB + A_B - KEYS[1]"
    assert with_values("A", {}) == "A"


def test_names_are_found_in_the_order_asked_for():
    assert names_in("B(A) AB", ("A", "AB", "C", "B")) == ("A", "AB", "B")
