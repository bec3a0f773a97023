"""The live view: one look each interval, drawn in place."""

from __future__ import annotations

import contextlib
import select
import sys
import time
from typing import TYPE_CHECKING

from vtrr_queue.cli.command import FAILED, Problem
from vtrr_queue.cli.looking import TITLES, row_cells, summary, without_rows
from vtrr_queue.cli.output import cell, clipped, plain, print_json

try:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text
except ImportError as exc:
    raise Problem("top needs rich: pip install 'vtrr-queue[cli]'", FAILED) from exc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vtrr_queue.survey import Overview, Row, Sort, Survey

KEYS: dict[str, Sort] = {"b": "backlog", "o": "oldest", "r": "running", "u": "used"}

HINT = "b backlog  o oldest  r running  u used  q quit"

STYLES = {"paused": "yellow", "held": "yellow", "limited": "magenta", "capped": "cyan",
          "running": "green", "ready": ""}  # fmt: skip

_LEFT = 2
"""Columns that are words."""

_NAME_MIN = 16
"""Width that a long name has at least; before it gets less, the last columns go."""

_KEPT = 4
"""Columns that never go."""


def watch(
    survey: Survey, *, sort: Sort, limit: int, interval: float, count: int | None, as_json: bool
) -> None:
    """Look again and again.

    Args:
        survey: What is looked at.
        sort: Order of the partitions.
        limit: Most partitions.
        interval: Time between two looks, s.
        count: Looks until the end; None for no end.
        as_json: Print an object a line instead of drawing.
    """
    with contextlib.suppress(KeyboardInterrupt):
        if as_json:
            for _ in _turns(interval, count):
                found = survey.look(sort, limit)
                print_json({**without_rows(found), "rows": plain(found.rows)})
                sys.stdout.flush()
        else:
            _draw(survey, sort, limit, interval, count)


def _draw(survey: Survey, sort: Sort, limit: int, interval: float, count: int | None) -> None:
    console = Console()
    with _single_keys() as pressed, Live(
        console=console, auto_refresh=False, screen=console.is_terminal
    ) as live:  # fmt: skip
        turn = 0
        while count is None or turn < count:
            began = time.monotonic()
            room = max(1, console.height - 6) if console.is_terminal else limit
            seen = picture(survey.look(sort, min(limit, room)), sort, console.width)
            live.update(seen, refresh=True)
            turn += 1
            key = "" if turn == count else pressed(max(0.0, interval - time.monotonic() + began))
            if key == "q":
                return
            sort = KEYS.get(key, sort)


def picture(overview: Overview, sort: Sort, width: int) -> Group:
    """What is drawn at one moment on so many columns."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    rows = [list(_cells(row, overview.at_ms)) for row in overview.rows]
    kept = _fitting(rows, width)
    for at, title in enumerate(TITLES[:kept]):
        table.add_column(title, justify="left" if at < _LEFT else "right", no_wrap=at > 0)
    for cells in rows:
        table.add_row(*cells[:kept])
    counted = "" if overview.whole else "; counts of some partitions are some seconds old"
    foot = Text(f"by {sort}{counted}   {HINT}", style="dim")
    return Group(*(Text(line) for line in summary(overview)), Text(""), table, Text(""), foot)


def _fitting(rows: Sequence[Sequence[Text]], width: int) -> int:
    """How many columns are shown, so that some of each name can be read beside them."""
    widths = [len(title) for title in TITLES]
    for cells in rows:
        widths = [max(most, len(text)) for most, text in zip(widths, cells, strict=True)]
    widths[0] = min(widths[0], _NAME_MIN)
    kept = len(widths)
    while kept > _KEPT and sum(widths[:kept]) + 2 * (kept - 1) > width:
        kept -= 1
    return kept


def _cells(row: Row, now_ms: int) -> Iterator[Text]:
    for at, value in enumerate(row_cells(row, now_ms)):
        # The name's column is the only one that rich narrows; it is cut, not wrapped.
        style = STYLES[row.state] if at == 1 else ""
        yield Text(clipped(cell(value)), style=style, no_wrap=True, overflow="ellipsis")


def _turns(interval: float, count: int | None) -> Iterator[None]:
    turn = 0
    while True:
        began = time.monotonic()
        yield
        turn += 1
        if turn == count:
            return
        time.sleep(max(0.0, interval - time.monotonic() + began))


@contextlib.contextmanager
def _single_keys() -> Iterator[Callable[[float], str]]:
    """Read keys as they are pressed, where there is a keyboard.

    Yields:
        A function that waits so many seconds for a key and returns it, or "".
    """
    if not sys.stdin.isatty():
        yield _slept
        return
    import termios  # noqa: PLC0415 - where there is a terminal of this kind
    import tty  # noqa: PLC0415

    def pressed(wait: float) -> str:
        ready, _, _ = select.select([sys.stdin], [], [], wait)
        return sys.stdin.read(1) if ready else ""

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _slept(wait: float) -> str:
    time.sleep(wait)
    return ""
