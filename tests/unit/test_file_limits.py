"""Files and functions stay short enough to be read whole."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = {"src": 400, "tests": 500, "tools": 400, "benchmarks": 400}
FUNCTION_LINES = 60  # the docstring doesn't count
SCRIPT_LINES = 90  # the header comment doesn't count

PYTHON = [path for folder in LINES for path in sorted((ROOT / folder).rglob("*.py"))]
LUA = sorted((ROOT / "src").rglob("*.lua"))


def name(path):
    return str(path.relative_to(ROOT))


def code_lines(function):
    """Return the lines from `def` to the end less those of the docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function):
        lines -= function.body[0].end_lineno - function.body[0].lineno + 1
    return lines


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_a_python_file_is_short(path):
    text = path.read_text()
    length = text.count("\n")
    assert length <= LINES[path.relative_to(ROOT).parts[0]]
    long = {
        node.name: code_lines(node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and code_lines(node) > FUNCTION_LINES
    }
    assert long == {}


@pytest.mark.parametrize("path", LUA, ids=name)
def test_a_lua_file_is_short(path):
    lines = path.read_text().splitlines()
    length = len([line for line in lines if not line.startswith("--")])
    assert length <= SCRIPT_LINES
