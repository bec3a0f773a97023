"""Text passes over Lua: what a server need not do at each call is done once, here.

A name that a function takes from around it costs as much as a small command. So constants and key
names become literals, and branches that are never taken go.

Invariant: the passes rely on our own layout, one statement a line and two spaces a level; luacheck
and the tests of the composed scripts see what comes of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_IF = re.compile(r"^( *)if (.*) then(?: --.*)?$")
_BRANCH = re.compile(r"^( *)(?:elseif (.*) then(?: --.*)?|else|end)$")


def without_dead_branches(text: str) -> str:
    """Leave out the branches whose condition is plainly false.

    Args:
        text: Lua text in our layout.
    """
    kept: list[str] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        opened = _IF.match(lines[at])
        if opened is None or not _has_dead_branch(lines, at, opened[1]):
            kept.append(lines[at])
            at += 1
            continue
        branches, at = _branches(lines, at, opened[1])
        kept += _rebuilt(branches, opened[1])
    return "\n".join(kept)


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Put values where their names stand.

    Args:
        text: Lua text.
        values: Name -> Lua expression.
    """
    if not values:
        return text
    return re.sub(rf"\b(?:{'|'.join(values)})\b", lambda found: values[found[0]], text)


def names_in(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Which of these names a text has, in the given order.

    Args:
        text: Lua text.
        names: Identifiers.
    """
    words = set(re.findall(r"\w+", text))
    return tuple(name for name in names if name in words)


def literal(text: str) -> str:
    """A Lua string of this text.

    Args:
        text: Any characters.
    """
    escaped = "".join(rf"\{ord(c):03d}" if c in '"\\' or c < " " else c for c in text)
    return f'"{escaped}"'


def outer_parts(text: str, separator: str) -> list[str]:
    """Split at a separator that stands in no parentheses, braces or quotes.

    Args:
        text: A Lua expression, or several.
        separator: What to split at, such as ``","``.
    """
    hidden = _QUOTED.sub(lambda found: "_" * len(found[0]), text)
    parts, start, depth = [], 0, 0
    for at, letter in enumerate(hidden):
        depth += (letter in "({[") - (letter in ")}]")
        if depth == 0 and hidden.startswith(separator, at):
            parts.append(text[start:at])
            start = at + len(separator)
    return [*parts, text[start:]]


def _is_never(condition: str) -> bool:
    """Whether each alternative of a condition is, or begins with, false."""
    alternatives = outer_parts(condition, " or ")
    return all(outer_parts(each, " and ")[0].strip() == "false" for each in alternatives)


def _has_dead_branch(lines: list[str], at: int, indent: str) -> bool:
    branches, _ = _branches(lines, at, indent)
    return any(_is_never(condition) for condition, _ in branches)


def _branches(lines: list[str], at: int, indent: str) -> tuple[list[tuple[str, list[str]]], int]:
    """Condition and lines of each branch of the ``if`` at a line, and the line behind its end."""
    opened = _IF.match(lines[at])
    branches: list[tuple[str, list[str]]] = [(opened[2] if opened else "", [])]
    for n in range(at + 1, len(lines)):
        found = _BRANCH.match(lines[n])
        if found is None or found[1] != indent:
            branches[-1][1].append(lines[n])
        elif lines[n].strip() == "end":
            return branches, n + 1
        else:
            branches.append((found[2] or "", []))
    message = f"no end for {lines[at]!r}"
    raise ValueError(message)


def _rebuilt(branches: list[tuple[str, list[str]]], indent: str) -> list[str]:
    left = [(condition, body) for condition, body in branches if not _is_never(condition)]
    if not left:
        return []
    built: list[str] = []
    for n, (condition, body) in enumerate(left):
        word = ("elseif" if n else "if") if condition else ("else" if n else "do")
        built.append(f"{indent}{word} {condition} then" if condition else f"{indent}{word}")
        built += without_dead_branches("\n".join(body)).splitlines()
    return [*built, f"{indent}end"]
