"""What a person sees: progress while it runs, the table at the end.

On a terminal bars are redrawn in place; elsewhere a line comes every two seconds.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Protocol, Self

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from vtrr_queue.demo.report import Comparison, LaneFigures, duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from rich.console import Console

    from vtrr_queue.demo.report import Waits
    from vtrr_queue.demo.scenario import Run

_REDRAW_SECONDS = 0.1
_LINE_SECONDS = 2.0


class Show(Protocol):
    """Shows how far things are."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def say(self, text: str) -> None:
        """Tell what happens now."""

    def update(self, run: Run) -> None:
        """Show the state of a run; cheap when called too often."""

    def finish(self, run: Run, seconds: float) -> None:
        """Show the end of a run that took that long."""


class Lines:
    """Shows progress as lines of text.

    Args:
        console: Where to write.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._due = 0.0  # monotonic clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to take down."""

    def say(self, text: str) -> None:
        """Write a line."""
        self._due = time.monotonic() + _LINE_SECONDS
        self._console.print(text, soft_wrap=True, markup=False, highlight=False)

    def update(self, run: Run) -> None:
        """Write a line when the last one is two seconds old."""
        if time.monotonic() >= self._due:
            waits = ", ".join(f"{name} {_median(own)}" for name, own in run.ledger.waits.items())
            done = f"{run.ledger.rows}/{run.ledger.total} done"
            self.say(f"{run.lane.title}: {done}, median wait {waits}")

    def finish(self, run: Run, seconds: float) -> None:
        """Write a last line about the run."""
        self.say(f"{run.lane.title}: all {run.ledger.total} items done in {seconds:.1f} s")


class Bars:
    """Shows progress as bars, one for each lane and one for each tenant.

    Args:
        console: The terminal.
        titles: The lanes, in the order in which they will run.
        expected: Tenant -> number of its items.
    """

    def __init__(
        self,
        console: Console,
        titles: Sequence[str],
        expected: Mapping[str, int],
    ) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("median wait {task.fields[wait]}", style="cyan"),
            console=console,
        )
        self._bars: dict[tuple[str, str | None], TaskID] = {}
        for title in titles:
            self._add(title, None, sum(expected.values()))
            for tenant, count in expected.items():
                self._add(title, tenant, count)
        self._status = Text(style="dim")
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._due = 0.0

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def say(self, text: str) -> None:
        """Change the line below the bars."""
        self._status.plain = text
        self._draw()

    def update(self, run: Run) -> None:
        """Move the bars, at most ten times a second."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _REDRAW_SECONDS
            self._move(run)
            self._draw()

    def finish(self, run: Run, seconds: float) -> None:
        """Fill the bars."""
        self._move(run)
        self.say(f"{run.lane.title}: done in {seconds:.1f} s")

    def _add(self, title: str, tenant: str | None, total: int) -> None:
        name = f"[bold]{title}" if tenant is None else f"  {tenant}"
        self._bars[title, tenant] = self._progress.add_task(name, total=total, wait="-")

    def _move(self, run: Run) -> None:
        everything: list[float] = []
        for tenant, waits in run.ledger.waits.items():
            self._set(run.lane.title, tenant, waits)
            everything += waits
        self._set(run.lane.title, None, everything)

    def _set(self, title: str, tenant: str | None, waits: Sequence[float]) -> None:
        bar = self._bars[title, tenant]
        self._progress.update(bar, completed=len(waits), wait=_median(waits))

    def _draw(self) -> None:
        self._live.update(Group(self._progress.get_renderable(), self._status), refresh=True)


def make_show(
    console: Console,
    titles: Sequence[str],
    expected: Mapping[str, int],
) -> Bars | Lines:
    """Choose what suits the place that output goes to.

    Args:
        console: Where to write.
        titles: The lanes, in the order in which they will run.
        expected: Tenant -> number of its items.
    """
    # Not is_terminal: FORCE_COLOR, set by some CI systems, would make it true for a file.
    if console.file.isatty() and not console.is_dumb_terminal:
        return Bars(console, titles, expected)
    return Lines(console)


def table(comparison: Comparison) -> Table:
    """Lay out the waiting times of both lanes, a row for each tenant."""
    plain, fair = comparison.plain, comparison.fair
    grid = Table(
        title="Waiting time, from the tenant's enqueue call to the start of each item",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),  # so narrow it fits into 80 columns
    )
    grid.add_column("\ntenant", no_wrap=True)
    grid.add_column("\nitems", justify="right", no_wrap=True)
    for lane in (plain, fair):
        for heading in (f"{lane.title}\nmedian", "\np95", "\nmax"):
            grid.add_column(heading, justify="right", no_wrap=True)
    for tenant, waits in plain.tenants.items():
        grid.add_row(*_row(tenant, waits, fair.tenants[tenant]))
    grid.add_section()
    grid.add_row(*_row("all small", plain.small, fair.small), style="bold")
    return grid


def closing_lines(comparison: Comparison) -> str:
    """Say what the table shows."""
    ends = ", ".join(_end(lane) for lane in (comparison.plain, comparison.fair))
    return (
        f"Speed-up for the small tenants: {comparison.speed_up:.1f}x (ratio of the medians)\n"
        f"All items done after: {ends}\n"
        f"{comparison.sentence}"
    )


def _row(name: str, plain: Waits, fair: Waits) -> list[str]:
    times = [t for waits in (plain, fair) for t in (waits.median, waits.p95, waits.longest)]
    return [name, f"{plain.count:,}", *map(duration, times)]


def _end(lane: LaneFigures) -> str:
    return f"{lane.title} {lane.seconds:.1f} s"


def _median(waits: Sequence[float]) -> str:
    return duration(statistics.median(waits)) if waits else "-"
