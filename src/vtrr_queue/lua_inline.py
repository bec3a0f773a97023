"""Puts library functions where they are called, so that a call of the script builds none of them.

A server builds each function of a script anew at each call, with all that it takes from around it,
and hands it its arguments; together a third of what a short script costs (docs/design/0008). So a
function that is called as a statement of its own becomes a block there, one that only returns an
expression becomes that expression, and one that is called seldom is built where it is called.

Invariants: our own layout, one statement a line and two spaces a level; no local variable bears the
name of a library function. What fits none of the three forms stays a function.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from vtrr_queue.lua_text import outer_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HEAD = re.compile(r"^local function (\w+)\((.*)\)$")
_STATEMENT = re.compile(r"^( *)(?:(local )?([\w, ]+) = )?(\w+)\((.*)$")
_RETURN = re.compile(r"^( *)return\b ?(.*)$")
_LOOP = re.compile(r"^ *(?:for|while|repeat)\b")
_SIMPLE = re.compile(r'^(?:[\w.]+|"[^"]*")$')
_LEVEL = 2


@dataclass(frozen=True, slots=True)
class Function:
    """A library function.

    Attributes:
        name: Its name.
        prelude: Lines before it, variables that it keeps for the whole script.
        parameters: Names of its parameters.
        body: Lines between its first and its last, a level in.
    """

    name: str
    prelude: tuple[str, ...]
    parameters: tuple[str, ...]
    body: tuple[str, ...]

    @property
    def whole(self) -> str:
        """Prelude and definition."""
        return "\n".join([*self.prelude, self.text])

    @property
    def text(self) -> str:
        """Its definition, without the prelude."""
        head = f"local function {self.name}({', '.join(self.parameters)})"
        return "\n".join([head, *self.body, "end"])


def parse_function(text: str) -> Function:
    """Take a definition apart.

    Args:
        text: Perhaps a prelude, then ``local function name(...)`` to ``end``.

    Raises:
        ValueError: There is no such function in it.
    """
    lines = text.rstrip().splitlines()
    at = next((n for n, line in enumerate(lines) if _HEAD.match(line)), None)
    found = _HEAD.match(lines[at]) if at is not None else None
    if at is None or found is None or lines[-1] != "end":
        message = f"not a library function: {text[:60]!r}"
        raise ValueError(message)
    parameters = tuple(each.strip() for each in found[2].split(",") if each.strip())
    return Function(found[1], tuple(lines[:at]), parameters, tuple(lines[at + 1 : -1]))


def seldom(function: Function, inner: Sequence[Function]) -> Function:
    """A function that holds what it needs.

    Args:
        function: One that is called seldom.
        inner: Definitions that come before it.
    """
    lines = list(function.body)
    for each in reversed(inner):
        if _calls(each.name, lines):
            lines = [f"  {line}" for line in each.whole.splitlines()] + lines
    return Function(function.name, function.prelude, function.parameters, tuple(lines))


def with_functions(text: str, functions: Sequence[tuple[Function, bool]]) -> str:
    """A script whose functions stand where they are called.

    Args:
        text: Its own lines.
        functions: What it calls, each after what it calls itself, and whether it is called seldom.
    """
    inliner = _Inliner()
    for function, rare in functions:
        inliner.add(function, rare=rare)
    return inliner.finish(text)


class _Inliner:
    """Functions met so far, in the form that their callers take them in."""

    def __init__(self) -> None:
        self._functions: list[Function] = []
        self._blocks: dict[str, Function] = {}
        self._expressions: dict[str, Function] = {}
        self._seldom: dict[str, Function] = {}
        self._placed: set[str] = set()
        self._serial = 0

    def add(self, function: Function, *, rare: bool) -> None:
        body = function.body if rare else tuple(self._lines(function.body))
        function = Function(function.name, function.prelude, function.parameters, body)
        self._functions.append(function)
        if rare:
            self._seldom[function.name] = function
        elif _is_expression(body):
            self._expressions[function.name] = function
        elif not any(_in_a_loop(body, at) for at in _returns(body)):
            self._blocks[function.name] = function

    def finish(self, text: str) -> str:
        lines = list(self._lines(text.splitlines()))
        for function in reversed(self._functions):
            is_called = _calls(function.name, lines)
            if is_called:
                lines = function.text.splitlines() + lines
            if is_called or function.name in self._placed:
                lines = [*function.prelude, *lines]
        return "\n".join(lines)

    def _lines(self, lines: Sequence[str]) -> Iterator[str]:
        for line in lines:
            yield from self._line(self._with_expressions(line))

    def _line(self, line: str) -> Iterator[str]:
        found = _STATEMENT.match(line)
        function = self._blocks.get(found[4]) if found else None
        if found and function and (given := _call(found[5])) is not None and not given[1]:
            yield from self._block(function, found, given[0])
            return
        for name, rare in self._seldom.items():
            if name in line and (at := re.search(rf"\b{name}\(", line)):
                self._placed.add(name)
                yield from _built_here(line, at.start(), at.end(), rare)
                return
        yield line

    def _with_expressions(self, line: str) -> str:
        for name, function in self._expressions.items():
            if name in line and (at := re.search(rf"(?<![\w.]){name}\(", line)):
                arguments, rest = _call(line[at.end() :]) or ("", "")
                given = [each.strip() for each in outer_parts(arguments, ",") if each.strip()]
                if all(_SIMPLE.match(each) for each in given):
                    self._placed.add(name)
                    expression = _expression_with(function, given)
                    return self._with_expressions(f"{line[: at.start()]}({expression}){rest}")
        return line

    def _block(self, function: Function, found: re.Match[str], arguments: str) -> Iterator[str]:
        """The lines of a function in place of a call, its results in variables of their own."""
        indent, declares, targets = found[1], found[2] or "", found[3]
        names = [each.strip() for each in (targets or "").split(",") if each.strip()]
        self._serial += 1
        self._placed.add(function.name)
        results = ", ".join(f"{name}_{self._serial}" for name in names)
        if results:
            yield f"{indent}local {results}"
        leaves = any(_depth(function.body[at]) > _LEVEL for at in _returns(function.body))
        yield f"{indent}{'repeat' if leaves else 'do'}"
        if function.parameters:
            given = f" = {arguments}" if arguments.strip() else ""
            yield f"{indent}  local {', '.join(function.parameters)}{given}"
        for line in _without_returns(function.body, results):
            yield indent + line
        yield f"{indent}{'until true' if leaves else 'end'}"
        if targets:
            yield f"{indent}{declares}{targets} = {results}"


def _is_expression(body: Sequence[str]) -> bool:
    found = _RETURN.match(body[0]) if len(body) == 1 else None
    return found is not None and len(outer_parts(found[2], ",")) == 1


def _expression_with(function: Function, given: Sequence[str]) -> str:
    expression = function.body[0].strip().removeprefix("return ")
    values = dict(zip_longest(function.parameters, given, fillvalue="nil"))
    words = re.compile(r'"[^"]*"|(?<![.\w])[A-Za-z_]\w*')
    return words.sub(lambda word: values.get(word[0], word[0]), expression)


def _call(text: str) -> tuple[str, str] | None:
    """The arguments, and what stands behind the parenthesis that ends them; None without one."""
    arguments = outer_parts(f"({text}", ")")[0][1:]
    return (arguments, text[len(arguments) + 1 :]) if arguments != text else None


def _built_here(line: str, start: int, end: int, function: Function) -> Iterator[str]:
    """A call whose function is built by the expression that calls it."""
    indent = line[: _depth(line)]
    before = line[:start] if line[:start].strip() else f"{indent}local _ = "
    yield f"{before}(function({', '.join(function.parameters)})"
    for each in function.body:
        yield indent + each
    yield f"{indent}end)({line[end:]}"


def _parts(lines: Sequence[str]) -> Iterator[list[str]]:
    """Each line, or all lines of a call whose function is built there."""
    part: list[str] = []
    for line in lines:
        part.append(line)
        ends = _depth(line) == _depth(part[0]) and line.lstrip().startswith("end)(")
        if ends or "(function(" not in part[0]:
            yield part
            part = []


def _calls(name: str, lines: Sequence[str]) -> bool:
    """Whether a function is called outside of those that have a definition of their own of it."""
    call, own = re.compile(rf"(?<!function )\b{name}\("), f"local function {name}("
    return any(
        any(map(call.search, part)) and not any(own in line for line in part)
        for part in _parts(lines)
    )


def _returns(body: Sequence[str]) -> list[int]:
    """Lines with a return of the function itself, not of one that is built inside it."""
    found, at = [], 0
    for part in _parts(body):
        if _RETURN.match(part[0]):
            found.append(at)
        at += len(part)
    return found


def _in_a_loop(body: Sequence[str], at: int) -> bool:
    indent = _depth(body[at])
    for line in reversed(body[:at]):
        if line.strip() and _depth(line) < indent:
            indent = _depth(line)
            if _LOOP.match(line):
                return True
    return False


def _without_returns(body: Sequence[str], results: str) -> Iterator[str]:
    """Lines that put into variables what they returned, and leave the block around them.

    A return on the first level is the last statement: there nothing has to be left.
    """
    leaving, returns = "", _returns(body)
    for n, line in enumerate(body):
        if leaving and _depth(line) < len(leaving):
            yield f"{leaving}break"
            leaving = ""
        found = _RETURN.match(line)
        if found is None or n not in returns:
            yield line
            continue
        if found[2] and (results or "(" in found[2]):
            yield f"{found[1]}{results or 'local _'} = {found[2]}"
        leaving = found[1] if _depth(line) > _LEVEL else ""


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
