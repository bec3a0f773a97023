"""Draws the drain rates of a run as bars in SVG, on a linear scale; pure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH, _LEFT, _RIGHT = 760, 210, 620
_TOP, _BAR, _GAP, _HEAD = 76, 18, 6, 34
_OURS, _PLAIN, _PEER = "#0f9d8a", "#627d98", "#cbd2d9"
_STYLE = """\
text {
  font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #243b53
}
.title { font-size: 18px; font-weight: 600 }
.group { font-weight: 600 }
.quiet { fill: #627d98; font-size: 12px }"""


def draw(
    title: str, note: str, groups: Sequence[tuple[str, Sequence[tuple[str, float]]]], plain: str
) -> str:
    """Draw groups of bars, each with its rate and its ratio to a plain queue's.

    Args:
        title: Above all.
        note: Below the title.
        groups: Name of each group, and the name and rate of its bars.
        plain: Name of the bar that the others of its group are compared with.

    Returns:
        An SVG document.
    """
    longest = max(rate for _, bars in groups for _, rate in bars)
    body = [_text(24, 34, title, "title"), _text(24, 54, note, "quiet")]
    y = _TOP
    for name, bars in groups:
        body.append(_text(24, y + 16, name, "group"))
        y += _HEAD - 8
        basis = dict(bars).get(plain)
        for who, rate in bars:
            width = max(1.0, (_RIGHT - _LEFT) * rate / longest)
            ratio = f", {rate / basis:.1f} x" if basis and who != plain else ""
            size = f'width="{width:.1f}" height="{_BAR}" rx="2"'
            body += [
                _text(_LEFT - 10, y + 13.5, who, anchor="end"),
                f'<rect x="{_LEFT}" y="{y}" {size} fill="{_colour(who, plain)}"/>',
                _text(round(_LEFT + width + 8, 1), y + 13.5, f"{rate:,.0f}/s{ratio}"),
            ]
            y += _BAR + _GAP
        y += 12
    return _document(y + 8, body, title)


def _colour(who: str, plain: str) -> str:
    if who.startswith("vtrr-queue"):
        return _OURS
    return _PLAIN if who.startswith(plain) else _PEER


def _document(height: float, body: Sequence[str], title: str) -> str:
    size = f'width="{_WIDTH}" height="{height:g}" viewBox="0 0 {_WIDTH} {height:g}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{_STYLE}\n</style>",
        f'<rect width="{_WIDTH}" height="{height:g}" rx="8" fill="#ffffff"/>',
        *body,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{style}>{escape(content)}</text>'
