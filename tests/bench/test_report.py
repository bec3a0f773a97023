"""Tables of the benchmarks."""

import pytest

from benchmarks.report import Table, compared, shown


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "-"), ("a word", "a word"), (0.0, "0"), (1234567.8, "1,234,568"), (99.94, "99.9"),
        (2.5, "2.50"), (0.0123, "0.0123"),
    ],
)  # fmt: skip
def test_a_figure_shows_three_digits(cell, text):
    """What a table shows is as exact as what was measured, and no more."""
    assert shown(cell) == text


def test_each_row_stands_beside_its_basis():
    """A ratio is that to the row named; where either is missing there is none."""
    found = {"base": {"a": 10.0, "b": 4.0}, "other": {"a": 25.0}}
    table = compared("T", "note", ("", "a", "b"), found, basis=lambda _: "base", unit="/s")
    assert table.head == ["", "a, /s", "ratio", "b, /s", "ratio"]
    assert table.rows[1] == ["other", 25.0, "2.50 x", None, None]


def test_a_table_is_valid_markdown():
    """The rows of the Markdown have as many cells as its head."""
    lines = Table("T", "note", ("x", "y"), [["a", 1.0], ["b", None]]).markdown().splitlines()
    assert lines[4:] == ["| x | y |", "| --- | ---: |", "| a | 1.00 |", "| b | - |"]
