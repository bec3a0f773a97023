"""docs/cli.md names every command, exit code, reason and field of what is printed."""

import dataclasses
import re
from pathlib import Path
from typing import get_args

import pytest

from vtrr_queue.cli import command
from vtrr_queue.cli.group import COMMANDS
from vtrr_queue.doctor import Finding
from vtrr_queue.items import Seen
from vtrr_queue.model import DeadLetter
from vtrr_queue.policy import Policy, Rate
from vtrr_queue.reasons import Kind, Reason
from vtrr_queue.records import HeldLease
from vtrr_queue.survey import Overview, Row, Sort, State

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
HIDDEN = {"body", "token"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_described(name):
    """In both tables."""
    tables = PAGE.split("## Exit codes")
    for table in tables:
        assert re.search(rf"^\|[^|]*`{name}\b", table, re.MULTILINE), name


def test_exit_codes():
    codes = [command.FAILED, command.WRONG, command.NOT_FOUND, command.FINDINGS, command.DECLINED]
    assert [int(code) for code in re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE)] == [0, *codes]


@pytest.mark.parametrize("kind", [*get_args(State), *get_args(Sort), *get_args(Kind)])
def test_a_word_of_an_answer_is_named(kind):
    """All but "unknown", which is an exit code."""
    assert f"`{kind}`" in PAGE or kind in {"unknown", "backlog"}


@pytest.mark.parametrize(
    "kind", [Overview, Row, Rate, Reason, Seen, HeldLease, DeadLetter, Policy, Finding]
)
def test_a_field_is_named(kind):
    names = {field.name for field in dataclasses.fields(kind)} - HIDDEN
    assert {name for name in names if f"`{name}`" not in PAGE} == set()
