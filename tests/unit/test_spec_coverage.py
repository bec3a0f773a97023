"""Every row of the specification names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "spec-coverage.md"
PROVED = [*range(1, 7), *range(8, 18), 19, 21, 22, 23, 24, 25, 26]
ROWS = [*(f"S{number}" for number in range(1, 43)), *(f"B{number}" for number in PROVED)]


def read_table():
    """Return a mapping row -> list of tests."""
    lines = re.findall(r"^\| *([SB]\d+) *\| *(.*?) *\|$", TABLE.read_text(), re.MULTILINE)
    assert len(lines) == len(dict(lines)), "a row stands twice"
    return {row: re.findall(r"[^\s,`]+", tests) for row, tests in lines}


@cache
def functions(path):
    """Return the names of a file's test functions, `TestX::test_y` for methods."""
    body = ast.parse(path.read_text()).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    found = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    for node in classes:
        found |= {f"{node.name}::{inner.name}" for inner in node.body if hasattr(inner, "name")}
    return found


def test_the_table_has_every_row_and_no_other():
    assert list(read_table()) == ROWS


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_proved_by_tests_that_exist(row):
    tests = read_table().get(row)
    assert tests, f"{row} has no test"
    assert "TODO" not in tests, f"{row} is not proved yet"
    for test in tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).is_file(), f"{row}: no such file as {path}"
        assert name.split("[")[0] in functions(ROOT / path), f"{row}: no such test as {test}"
