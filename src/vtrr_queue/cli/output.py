"""How answers look: aligned text for people, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CELL_MAX = 200
"""Longest text of a cell, characters."""

PADDED_MAX = 40
"""Widest column; what is longer moves its own line only."""

_NUMBER = re.compile(r"[0-9][0-9,.]*(e[-+]?[0-9]+)?(%|ms|s|m[0-9]{2}s|h[0-9]{2}m|d[0-9]{2}h)?")
"""A number, a part or a time as :func:`seconds` writes it."""

_WORDS = {"item", "partition", "task", "holder", "reason", "died", "arguments"}
"""Titles of columns that stand on the left, also where each word is a number."""

MINUTE, HOUR, DAY = 60, 3600, 86_400


def print_json(value: Any) -> None:
    """Print a value, its dataclasses as objects and endless numbers as null."""
    click.echo(json.dumps(plain(value)))


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: plain(getattr(value, name)) for name in names if name != "body"}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | None) else repr(value)


def shown(text: object) -> str:
    """A name as a terminal may get it: what is not printable is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode()
                   for c in str(text))  # fmt: skip


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows in columns; numbers stand on the right, and a long name moves its own row only."""
    cells = [tuple(clipped(cell(value)) for value in row) for row in rows]
    widths = [min(PADDED_MAX, max(map(len, column)))
              for column in zip(titles, *cells, strict=True)]  # fmt: skip
    right = [bool(cells) and title not in _WORDS and all(_is_number(row[at]) for row in cells)
             for at, title in enumerate(titles)]  # fmt: skip
    for row in (tuple(titles), *cells):
        words = (word.rjust(width) if to_right else word.ljust(width)
                 for word, width, to_right in zip(row, widths, right, strict=True))  # fmt: skip
        click.echo("  ".join(words).rstrip())


def cell(value: object) -> str:
    """One cell; None is a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else shown(value)


def clipped(text: str) -> str:
    """A text of bounded length: names may have 64 KB."""
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 1] + "\N{HORIZONTAL ELLIPSIS}"


def seconds(value: float | None) -> str:
    """A time as people say it: "850ms", "12.3s", "4m05s", "3h07m", "2d04h"."""
    if value is None:
        return "-"
    if value < 1:
        return f"{max(0, round(value * 1000))}ms"
    if value < MINUTE:
        return f"{value:.1f}s"
    for unit, size, smaller, part in (("m", MINUTE, "s", 1), ("h", HOUR, "m", MINUTE)):
        if value < size * (60 if unit == "m" else 24):
            return f"{int(value // size)}{unit}{int(value % size // part):02d}{smaller}"
    return f"{int(value // DAY)}d{int(value % DAY // HOUR):02d}h"


def moment(at_ms: int) -> str:
    """A time for people, UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def percent(part: float) -> str:
    """A part of 1."""
    return f"{100 * part:.1f}%"


def until(at_ms: int | None, now_ms: int) -> str:
    """How long it is until a moment."""
    return "-" if at_ms is None else f"in {seconds(max(0, at_ms - now_ms) / 1000)}"


def count_of(number: int, one: str, several: str = "") -> str:
    """As in: 1 item, 2 items."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def _is_number(text: str) -> bool:
    return text == "-" or _NUMBER.fullmatch(text) is not None
