"""Writes benchmarks/RESULTS.md and the picture of the README from the tables of a run."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders import PLAIN
from benchmarks.drain import DRAIN
from benchmarks.plot import draw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.report import Table

ROOT = Path(__file__).parents[1]
RESULTS, PICTURE = Path("benchmarks/RESULTS.md"), Path("docs/bench.svg")

_HEAD = """\
# Results of the benchmarks

Written by a run of `make bench`, not by hand. Only ratios within this run mean something
elsewhere: absolute figures are those of this machine, and others may have worked on it meanwhile.
"""


def command(arguments: Sequence[str]) -> str:
    """The command of a run, for people to repeat it."""
    quick = "BENCH=quick " if os.environ.get("BENCH") == "quick" else ""
    return (
        f'{quick}make bench ARGS="{shlex.join(arguments)}"' if arguments else f"{quick}make bench"
    )


def write(
    tables: Sequence[Table], facts: Mapping[str, str], arguments: Sequence[str], root: Path = ROOT
) -> None:
    """Write what a run has found.

    Args:
        tables: Of the run.
        facts: What it was made on.
        arguments: Of its command line.
        root: Where the files go, in the folders of this repository.
    """
    listed = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    parts = [_HEAD, listed, "", f"    {command(arguments)}", ""]
    groups = [_bars(table) for table in tables if table.title.startswith(DRAIN)]
    if groups:
        picture = draw(
            "Items that do nothing, a second",
            "One worker drains a full queue; ratios are to plain Celery in the same pool.",
            groups,
            PLAIN,
        )
        (root / PICTURE).write_text(picture)
        parts += [f"![Rates of one worker that drains a full queue](../{PICTURE})", ""]
    parts += [table.markdown() for table in tables]
    (root / RESULTS).write_text("\n".join(parts))


def _bars(table: Table) -> tuple[str, list[tuple[str, float]]]:
    bars = [(str(row[0]), row[1]) for row in table.rows if isinstance(row[1], float)]
    return table.title.removeprefix(DRAIN), sorted(bars, key=lambda bar: -bar[1])
