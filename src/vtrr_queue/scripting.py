"""Composes a script from its header, its includes and its body, and hashes it.

Invariants: every script gets the same declared key list; each include appears once, before
its users; a body names keys and arguments, never ``KEYS[3]``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from vtrr_queue.keys import SCHEMA, SCRIPT_KEYS
from vtrr_queue.model import WEIGHT_MAX, WEIGHT_MIN

CONSTANTS = {
    "EXPECTED_SCHEMA": f'"{SCHEMA}"',
    "MOST_LOOKS": "8",
    "MOST_ROUNDS": "10",
    "MOST_SKIPS": "16",
    "MOST_TRIM": "100",
    "MOST_UNPACK": "1000",
    "REBASE_AT": "1e12",
    "WEIGHT_LEAST": repr(WEIGHT_MIN),
    "WEIGHT_MOST": repr(WEIGHT_MAX),
}
"""Names a script may use without declaring them; each is composed in only where used."""

_TAG = re.compile(r"^-- @(\w+)\s+(.*)$")
_ARGUMENT = {"str": "ARGV[{}]", "int": "tonumber(ARGV[{}])"}


@dataclass(frozen=True, slots=True)
class Header:
    """What the comment block of a script or library file declares.

    Attributes:
        summary: First sentence.
        keys: Key -> description, in order of declaration.
        arguments: (name, type, description) in the order of ARGV.
        rest: Name of the variable that holds the index of the first repeated argument.
        includes: Library functions it calls.
        returns: Replies, alternatives separated by ``|``.
        cost: Complexity.
    """

    summary: str
    keys: dict[str, str]
    arguments: tuple[tuple[str, str, str], ...]
    rest: str
    includes: tuple[str, ...]
    returns: str
    cost: str


@dataclass(frozen=True, slots=True)
class Script:
    """A script ready to be sent.

    Attributes:
        name: File name without suffix, the verb.
        header: Its declaration.
        text: Composed Lua text.
        sha: SHA-1 of the text, for EVALSHA.
    """

    name: str
    header: Header
    text: str
    sha: str


def script_names() -> tuple[str, ...]:
    """Names of all scripts, sorted."""
    found = (entry.name for entry in files("vtrr_queue.scripts").iterdir())
    return tuple(sorted(name[:-4] for name in found if name.endswith(".lua")))


@cache
def load(name: str) -> Script:
    """Compose a script.

    Args:
        name: The verb, such as ``"lease"``.

    Raises:
        ValueError: The includes form a cycle, or a header names an unknown key or type.
    """
    source = _read(name)
    header = parse_header(source)
    included = _ordered(name, header.includes)
    parts = [_body(source), *(_body(_read(f"lib/{lib}")) for lib in included)]
    keys = set(header.keys)
    for lib in included:
        keys |= set(parse_header(_read(f"lib/{lib}")).keys)
    lines = [f"local {key.upper()} = KEYS[{SCRIPT_KEYS.index(key) + 1}]"
             for key in SCRIPT_KEYS if key in keys]  # fmt: skip
    lines += [f"local {constant} = {value}" for constant, value in CONSTANTS.items()
              if any(re.search(rf"\b{constant}\b", part) for part in parts)]  # fmt: skip
    given = [f"local {argument} = {_ARGUMENT[kind].format(at)}"
             for at, (argument, kind, _) in enumerate(header.arguments, start=1)]  # fmt: skip
    if header.rest:
        given.append(f"local {header.rest} = {len(header.arguments) + 1}")
    text = "\n".join([f"-- vtrr-queue {name}", *lines, *parts[1:], *given, parts[0]]) + "\n"
    return Script(name, header, text, hashlib.sha1(text.encode()).hexdigest())  # noqa: S324


def compose_all() -> dict[str, str]:
    """Every script by name as it is sent to the server."""
    return {name: load(name).text for name in script_names()}


def parse_header(source: str) -> Header:
    """Read the comment block at the top of a Lua file.

    Args:
        source: Text of the file.

    Raises:
        ValueError: It names a key or an argument type that does not exist.
    """
    lines = source.splitlines()
    tags = _tags(lines)
    keys = dict(_first_word(text) for text in tags.get("key", ()))
    arguments: list[tuple[str, str, str]] = []
    for text in tags.get("arg", ()):
        argument, rest = _first_word(text)
        arguments.append((argument, *_first_word(rest)))
    unknown = [key for key in keys if key not in SCRIPT_KEYS]
    unknown += [kind for _, kind, _ in arguments if kind not in _ARGUMENT]
    if unknown:
        message = f"unknown key or type {unknown[0]!r} in {lines[0]!r}"
        raise ValueError(message)
    return Header(
        summary=lines[0].removeprefix("--- "),
        keys=keys,
        arguments=tuple(arguments),
        rest=tags["rest"][0].split()[0] if "rest" in tags else "",
        includes=tuple(tags.get("include", ())),
        returns=" ".join(tags.get("return", ())),
        cost=" ".join(tags.get("cost", ())),
    )


def _ordered(name: str, includes: tuple[str, ...], path: tuple[str, ...] = ()) -> list[str]:
    ordered: list[str] = []
    for lib in includes:
        if lib in path:
            message = f"include cycle in {name}: {' -> '.join((*path, lib))}"
            raise ValueError(message)
        deeper = parse_header(_read(f"lib/{lib}")).includes
        for entry in (*_ordered(name, deeper, (*path, lib)), lib):
            if entry not in ordered:
                ordered.append(entry)
    return ordered


def _tags(lines: list[str]) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    for line in lines:
        if not line.startswith("--"):
            break
        found = _TAG.match(line)
        if found:
            tags.setdefault(found[1], []).append(found[2])
    return tags


def _first_word(text: str) -> tuple[str, str]:
    word, _, rest = text.partition(" ")
    return word, rest.strip()


def _body(source: str) -> str:
    lines = source.splitlines()
    start = next((n for n, line in enumerate(lines) if not line.startswith("--")), len(lines))
    return "\n".join(lines[start:])


def _read(name: str) -> str:
    return files("vtrr_queue.scripts").joinpath(f"{name}.lua").read_text(encoding="utf-8")
