"""Tables of figures, as text for a terminal and as Markdown for RESULTS.md; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Cell = str | float | None
"""Text, a figure, or nothing known."""


@dataclass(frozen=True)
class Table:
    """Figures that belong together.

    Attributes:
        title: What they are about.
        note: How they were measured, one or two sentences.
        head: Names of the columns; the first is that of the rows.
        rows: Cells, as many as there are columns.
    """

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def text(self) -> str:
        """The table for a terminal."""
        lines = [[shown(cell) for cell in row] for row in (self.head, *self.rows)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(self.head))]
        body = [
            "  "
            + "  ".join(
                cell.rjust(width) if at else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        ]
        return "\n".join([f"\n{self.title}", *body, f"  ({self.note})"])

    def markdown(self) -> str:
        """The table for RESULTS.md."""
        lines = [[shown(cell) for cell in row] for row in self.rows]
        rule = ["---"] + ["---:"] * (len(self.head) - 1)
        body = ["| " + " | ".join(line) + " |" for line in (list(self.head), rule, *lines)]
        return "\n".join([f"## {self.title}", "", self.note, "", *body, ""])


def shown(cell: Cell) -> str:
    """A cell as text: about three digits of a figure, nothing known as a dash."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    for least, digits in ((100.0, 0), (10.0, 1), (0.0995, 2)):
        if abs(cell) >= least or cell == 0:
            return f"{cell:,.{digits if cell else 0}f}"
    return f"{cell:.3g}"


def compared(
    title: str, note: str, head: Sequence[str], found: dict[str, dict[str, float]],
    basis: Callable[[str], str], unit: str,
) -> Table:  # fmt: skip
    """A table of figures with each one's ratio to the figure it is measured against.

    Args:
        title: Of the table.
        note: Of the table.
        head: Names of the first column and of the columns of figures.
        found: Row -> column -> figure; what is missing is not known.
        basis: Row -> row whose figures are its measure.
        unit: What the figures count, for the heads.
    """
    columns = head[1:]
    names = [head[0]]
    for column in columns:
        names += [f"{column}, {unit}", "ratio"]
    rows: list[list[Cell]] = []
    for name, figures in found.items():
        row: list[Cell] = [name]
        for column in columns:
            value, base = figures.get(column), found[basis(name)].get(column)
            row += [value, f"{value / base:.2f} x" if value and base else None]
        rows.append(row)
    return Table(title, note, names, rows)
