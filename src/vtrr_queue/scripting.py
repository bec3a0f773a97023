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

from vtrr_queue.keys import OPTIONS, PLAIN_KEYS, SCHEMA, SCRIPT_KEYS
from vtrr_queue.model import (
    ESTIMATE_STEP,
    FIRST_CHARGE_MS,
    PRIORITY_DEFAULT,
    SHARE_MAX,
    SHARE_MIN,
    WEIGHT_MAX,
    WEIGHT_MIN,
)
from vtrr_queue.policy import FIELDS, OWN_FROM

CONSTANTS = {
    "DEFAULT_LEVEL": f'"{PRIORITY_DEFAULT}"',
    "ESTIMATE_STEP": repr(ESTIMATE_STEP),
    "EXPECTED_SCHEMA": f'"{SCHEMA}"',
    "FIRST_CHARGE": repr(FIRST_CHARGE_MS),
    "FIELDS": "{ " + ", ".join(f'"{field}"' for field in FIELDS) + " }",
    "MOST_CUT": "100",
    "MOST_ESTIMATES": "10000",
    "MOST_LOOKS": "8",
    "MOST_ROUNDS": "10",
    "MOST_SKIPS": "16",
    "MOST_TRIM": "100",
    "MOST_UNPACK": "1000",
    "OWN": str(FIELDS.index(OWN_FROM) + 1),
    "REBASE_AT": "1e12",
    "SHARE_LEAST": repr(SHARE_MIN),
    "SHARE_MOST": repr(SHARE_MAX),
    "WEIGHT_LEAST": repr(WEIGHT_MIN),
    "WEIGHT_MOST": repr(WEIGHT_MAX),
}
"""Names a script may use without declaring them; each is composed in only where used."""

_TAG = re.compile(r"^-- @(\w+)\s*(.*)$")
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
        optional: Letters of the features it serves only; a script of this kind has all parts.
        returns: Replies, alternatives separated by ``|``.
        cost: Complexity.
    """

    summary: str
    keys: dict[str, str]
    arguments: tuple[tuple[str, str, str], ...]
    rest: str
    includes: tuple[str, ...]
    optional: str
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
        keys: How many of :data:`~vtrr_queue.keys.SCRIPT_KEYS` it gets.
    """

    name: str
    header: Header
    text: str
    sha: str
    keys: int


def script_names() -> tuple[str, ...]:
    """Names of all scripts, sorted."""
    found = (entry.name for entry in files("vtrr_queue.scripts").iterdir())
    return tuple(sorted(name[:-4] for name in found if name.endswith(".lua")))


@cache
def load(name: str, options: str = OPTIONS) -> Script:
    """Compose a script.

    Args:
        name: The verb, such as ``"lease"``.
        options: Letters of :data:`~vtrr_queue.keys.OPTIONS`, sorted: it has the parts for these
            features. A server builds all functions of a script at each call, so it is the cheaper
            the fewer it has. With none it gets the keys up to
            :data:`~vtrr_queue.keys.PLAIN_KEYS`. When the queue uses a feature that it has no part
            for, it does nothing and replies ``{"schema", echo, "options <letters>"}``.

    Raises:
        ValueError: The includes form a cycle, or a header names an unknown key or type.
    """
    source = _read(name)
    header = parse_header(source)
    options = OPTIONS if header.optional else options
    included = _ordered(name, header.includes, options=options)
    parts = [_body(source), *(_body(_read(f"lib/{lib}")) for lib in included)]
    keys = set(header.keys)
    for lib in included:
        keys |= set(parse_header(_read(f"lib/{lib}")).keys)
    lines = [f"local {key.upper()} = KEYS[{SCRIPT_KEYS.index(key) + 1}]"
             for key in SCRIPT_KEYS if key in keys]  # fmt: skip
    constants = {**CONSTANTS, "OPTIONS": f'"{options}"'}
    lines += [f"local {constant} = {value}" for constant, value in constants.items()
              if any(re.search(rf"\b{constant}\b", part) for part in parts)]  # fmt: skip
    # Nothing behind a test of what is left out is reached, nor does it cost an upvalue.
    for letter in set(OPTIONS) - set(options):
        parts = [re.sub(rf"\buses\.{letter}\b", "false", part) for part in parts]
    if not options:
        parts = [part.replace("next(uses)", "false") for part in parts]
    given = [f"local {argument} = {_ARGUMENT[kind].format(at)}"
             for at, (argument, kind, _) in enumerate(header.arguments, start=1)]  # fmt: skip
    if header.rest:
        given.append(f"local {header.rest} = {len(header.arguments) + 1}")
    text = "\n".join([f"-- vtrr-queue {name}", *lines, *parts[1:], *given, parts[0]]) + "\n"
    return _script(name, header, text, len(SCRIPT_KEYS) if options else PLAIN_KEYS)


@cache
def load_with_clock(name: str, options: str, key: str) -> Script:
    """A script that reads a key where others ask for the time, for simulations and tests.

    Args:
        name: The verb.
        options: As for :func:`load`.
        key: String with the time, ms.
    """
    script = load(name, options)
    clock = f'local function now_ms()\n  return tonumber(redis.call("GET", "{key}"))\nend'
    text = script.text.replace(_body(_read("lib/now_ms")), clock)
    return _script(name, script.header, text, script.keys)


def compose_all() -> dict[str, str]:
    """Every script by name, with the functions for optional features."""
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
        optional=" ".join(tags.get("optional", ())),
        returns=" ".join(tags.get("return", ())),
        cost=" ".join(tags.get("cost", ())),
    )


def _script(name: str, header: Header, text: str, keys: int) -> Script:
    return Script(name, header, text, hashlib.sha1(text.encode()).hexdigest(), keys)  # noqa: S324


def _ordered(
    name: str, includes: tuple[str, ...], path: tuple[str, ...] = (), *, options: str
) -> list[str]:
    ordered: list[str] = []
    for lib in includes:
        if lib in path:
            message = f"include cycle in {name}: {' -> '.join((*path, lib))}"
            raise ValueError(message)
        header = parse_header(_read(f"lib/{lib}"))
        if header.optional and not set(header.optional) & set(options):
            continue
        for entry in (*_ordered(name, header.includes, (*path, lib), options=options), lib):
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
