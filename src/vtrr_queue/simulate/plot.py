"""Charts of simulations as SVG, for the docs."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from vtrr_queue.simulate.report import percentile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtrr_queue.simulate.pool import Run

COLORS = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce")
_LEFT, _RIGHT, _ROW, _TOP = 150, 620, 18, 44


def waits_chart(title: str, runs: Mapping[str, Run], percent: float = 95) -> str:
    """Waiting times of each group under each order, on a logarithmic scale.

    Args:
        title: Heading.
        runs: Order -> what came of it.
        percent: Percentile that is shown.
    """
    first = next(iter(runs.values()))
    groups = list(dict.fromkeys(tenant.group or tenant.name for tenant in first.tenants))
    waits = {(group, name): percentile(run.waits(group), percent)
             for group in groups for name, run in runs.items()}  # fmt: skip
    least, most = 0.01, max(*waits.values(), 1.0)
    lines, y = [], _TOP
    for group in groups:
        lines.append(_text(_LEFT - 8, y + _ROW * len(runs) / 2 + 4, group, "end"))
        for color, name in zip(COLORS, runs, strict=False):
            wait = waits[group, name]
            part = math.log(max(wait, least) / least) / math.log(most / least)
            width = max(1.0, part * (_RIGHT - _LEFT - 70))
            lines.append(f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_ROW - 4}" '
                         f'fill="{color}"/>')  # fmt: skip
            lines.append(_text(_LEFT + width + 6, y + _ROW - 7, f"{wait:.2f} s"))
            y += _ROW
        y += 10
    return _page(title, lines, list(runs), y)


def shares_chart(title: str, runs: Mapping[str, Run], tenant: str, points: int = 60) -> str:
    """Part of the worker time that one tenant has used up to each moment.

    Args:
        title: Heading.
        runs: Order -> what came of it.
        tenant: Whose part.
        points: How finely.
    """
    height = 160
    bottom = _TOP + height
    lines = []
    for percent in (0, 25, 50, 75, 100):
        y = bottom - percent * height / 100
        lines.append(f'<line x1="{_LEFT}" y1="{y}" x2="{_RIGHT}" y2="{y}" stroke="#9ca3af" '
                     f'stroke-width="0.5"/>')  # fmt: skip
        lines.append(_text(_LEFT - 8, y + 4, f"{percent} %", "end"))
    for color, run in zip(COLORS, runs.values(), strict=False):
        path = []
        for n in range(1, points + 1):
            used = run.worker_seconds(0, run.seconds * n / points)
            part = used[tenant] / (sum(used.values()) or 1)
            x = _LEFT + (_RIGHT - _LEFT) * n / points
            path.append(f"{x:.1f},{bottom - part * height:.1f}")
        lines.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" '
                     f'points="{" ".join(path)}"/>')  # fmt: skip
    seconds = next(iter(runs.values())).seconds
    lines.append(_text(_RIGHT, bottom + 16, f"{seconds:,.0f} s", "end"))
    return _page(title, lines, list(runs), bottom + 24)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#6b7280">'
            f"{escape(text)}</text>")  # fmt: skip


def _page(title: str, lines: Sequence[str], names: Sequence[str], height: float) -> str:
    legend = []
    for n, (color, name) in enumerate(zip(COLORS, names, strict=False)):
        x = _LEFT + n * 200
        legend.append(f'<rect x="{x}" y="{height + 6}" width="12" height="12" fill="{color}"/>')
        legend.append(_text(x + 18, height + 16, name))
    heading = _text(10, 22, title).replace("<text", '<text font-size="15" font-weight="bold"')
    body = "\n".join((heading, *lines, *legend))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 {height + 28:.0f}" '
            f'font-family="sans-serif" font-size="12">\n{body}\n</svg>\n')  # fmt: skip
