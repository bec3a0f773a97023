"""What is kept for an old version goes when its note says."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTE = re.compile(r"REMOVE-IN:?\s*(\S*)")
SUFFIXES = {".py", ".lua", ".md", ".toml"}


def numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def overdue(text, version):
    """Return the notes whose version has arrived, and those that name none."""
    return [
        note
        for note in NOTE.findall(text)
        if not re.match(r"\d+\.\d+", note) or numbers(note) <= numbers(version)
    ]


def test_no_note_is_overdue():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    late = {
        str(path.relative_to(ROOT)): notes
        for folder in ("src", "benchmarks", "tools")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SUFFIXES and (notes := overdue(path.read_text(), version))
    }
    assert late == {}


@pytest.mark.parametrize(
    ("note", "late"),
    [("0.2", True), ("0.3", True), ("0.4", False), ("0.10", False), ("1.0", False), ("soon", True)],
)
def test_a_note_is_overdue_from_its_version_on(note, late):
    assert bool(overdue(f"# REMOVE-IN: {note} old name", "0.3.0")) is late
