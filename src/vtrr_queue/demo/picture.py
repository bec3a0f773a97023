"""Draws a comparison as a bar chart in SVG, on a logarithmic scale; pure.

A bar ends at the median, the thin line after it at the 95th percentile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtrr_queue.demo.report import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtrr_queue.demo.report import Comparison, Waits

_WIDTH = 760
_LEFT, _RIGHT = 24, 560
_TOP, _BAR, _GAP, _GROUP = 96, 24, 8, 96
_COLOURS = ("#9aa5b1", "#0f9d8a")
_STYLE = """\
text {
  font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #243b53;
  paint-order: stroke; stroke: #ffffff; stroke-width: 4px
}
.title { font-size: 18px; font-weight: 600 }
.group { font-weight: 600 }
.quiet { fill: #627d98; font-size: 12px }
.grid { stroke: #e4e7eb; stroke-width: 1 }
.reach { stroke-width: 2 }"""


@dataclass(frozen=True, slots=True)
class LogScale:
    """Maps times to places from left to right.

    Attributes:
        low: Exponent of ten at the left edge; times are in s.
        high: Exponent of ten at the right edge.
    """

    low: int
    high: int

    @classmethod
    def covering(cls, shortest: float, longest: float) -> LogScale:
        """Choose whole decades, so that the shortest time still has a bar to see."""
        low = math.floor(math.log10(shortest) - 0.3)
        return cls(low, max(low + 1, math.ceil(math.log10(longest))))

    def x(self, seconds: float) -> float:
        """Where a time is, px."""
        part = (math.log10(seconds) - self.low) / (self.high - self.low)
        return round(_LEFT + part * (_RIGHT - _LEFT), 1)

    @property
    def decades(self) -> list[float]:
        """Times that get a line, s."""
        return [10.0**exponent for exponent in range(self.low, self.high + 1)]


def draw(comparison: Comparison) -> str:
    """Draw the waiting times of the small tenants and of the flood.

    Args:
        comparison: The figures.

    Returns:
        An SVG document.
    """
    plain, fair, flood = comparison.plain, comparison.fair, comparison.flood
    groups = [
        (f"{len(plain.tenants) - 1} small tenants", (plain.small, fair.small)),
        ("The flooding tenant", (plain.tenants[flood], fair.tenants[flood])),
    ]
    waits = [wait for _, pair in groups for wait in pair]
    scale = LogScale.covering(min(w.median for w in waits), max(w.p95 for w in waits))
    bottom = _TOP + len(groups) * _GROUP
    body = [*_head(comparison), *_grid(scale, bottom)]
    for index, (name, pair) in enumerate(groups):
        body += _group(_TOP + index * _GROUP, name, pair, scale)
    return _document(bottom + 40, body)


def _document(height: int, body: list[str]) -> str:
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<style>\n{_STYLE}\n</style>",
        # An own background keeps it readable on a dark page.
        f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        *body,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _head(comparison: Comparison) -> Iterator[str]:
    plain, fair = comparison.plain, comparison.fair
    medians = f"{duration(plain.small.median)} to {duration(fair.small.median)}"
    flood = plain.tenants[comparison.flood].count
    yield f"<title>Small tenants' median wait falls from {medians}</title>"
    yield _text(_LEFT, 34, f"Waiting time beside a flood of {flood:,} items", "title")
    x = _LEFT
    for title, colour in zip((plain.title, fair.title), _COLOURS, strict=True):
        yield f'<rect x="{x}" y="50" width="12" height="12" rx="2" fill="{colour}"/>'
        yield _text(x + 18, 61, title)
        x += 118
    yield _text(x, 61, "bar: median, line: 95th percentile, logarithmic scale", "quiet")


def _grid(scale: LogScale, bottom: int) -> Iterator[str]:
    for seconds in scale.decades:
        x = scale.x(seconds)
        yield f'<line class="grid" x1="{x}" y1="{_TOP - 16}" x2="{x}" y2="{bottom}"/>'
        yield _text(x, bottom + 18, _tick(seconds), "quiet", "middle")


def _group(top: int, name: str, pair: tuple[Waits, Waits], scale: LogScale) -> Iterator[str]:
    yield _text(_LEFT, top + 6, name, "group")
    for index, (waits, colour) in enumerate(zip(pair, _COLOURS, strict=True)):
        y = top + 16 + index * (_BAR + _GAP)
        middle, start = y + _BAR / 2, scale.x(waits.median)
        end = scale.x(waits.p95)
        yield (
            f'<rect x="{_LEFT}" y="{y}" width="{start - _LEFT:.1f}" height="{_BAR}" '
            f'rx="2" fill="{colour}"/>'
        )
        yield (
            f'<line class="reach" stroke="{colour}" x1="{start}" y1="{middle}" '
            f'x2="{end}" y2="{middle}"/>'
        )
        label = f"{duration(waits.median)}, 95 % within {duration(waits.p95)}"
        yield _text(end + 8, middle + 4.5, label)


def _tick(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"


def _text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{style}>{content}</text>'
