"""Composes a script from its header, its includes and its body, and hashes it.

Invariants: key names stand in the text as literals, so each queue has its scripts; every script is
given the same key, which tells a cluster where to run it; each include appears once, before its
users; a body names keys and arguments, never ``KEYS[1]``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from vtrr_queue.keys import OPTIONS, PREFIX, SCHEMA, SCRIPT_KEYS
from vtrr_queue.lua_inline import Function, parse_function, seldom, with_functions
from vtrr_queue.lua_text import literal, names_in, with_values, without_dead_branches
from vtrr_queue.model import (
    ESTIMATE_STEP,
    FIRST_CHARGE_MS,
    PRIORITY_DEFAULT,
    SHARE_MAX,
    SHARE_MIN,
    SHORT_EPOCH_MS,
    SHORT_NAME,
    SHORT_RECORD,
    SHORT_SPAN_MS,
    SLOT_MS,
    SLOTS,
    WEIGHT_MAX,
    WEIGHT_MIN,
)
from vtrr_queue.policy import FIELDS, OWN_FROM

CONSTANTS = {
    "DEFAULT_LEVEL": f'"{PRIORITY_DEFAULT}"',
    "ESTIMATE_STEP": repr(ESTIMATE_STEP),
    "ALL_OPTIONS": f'"{OPTIONS}"',
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
    "MOST_SERVED": "1000",
    "SHARE_LEAST": repr(SHARE_MIN),
    "SHARE_MOST": repr(SHARE_MAX),
    "SHORT_EPOCH": str(SHORT_EPOCH_MS),
    "SHORT_NAME": str(SHORT_NAME),
    "SHORT_RECORD": str(SHORT_RECORD),
    "SHORT_SPAN": str(SHORT_SPAN_MS),
    "SLOTS": str(SLOTS),
    "SLOT_MS": str(SLOT_MS),
    "WEIGHT_LEAST": repr(WEIGHT_MIN),
    "WEIGHT_MOST": repr(WEIGHT_MAX),
}
"""Names a script may use without declaring them; each is composed in only where used."""

TABLES = ("FIELDS",)
"""Constants that are no literals: they stay names."""

_CLOCK = 'local function now_ms()\n  return tonumber(redis.call("GET", {}))\nend'
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
        rare: Called seldom: what only it needs is defined inside it.
        optional: Letters of the features it serves only; a script of this kind has all parts.
        read_only: It writes nothing, and may be called by who may only read.
        returns: Replies, alternatives separated by ``|``.
        cost: Complexity.
    """

    summary: str
    keys: dict[str, str]
    arguments: tuple[tuple[str, str, str], ...]
    rest: str
    includes: tuple[str, ...]
    rare: bool
    optional: str
    read_only: bool
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
def load(
    name: str,
    options: str = OPTIONS,
    prefix: str = PREFIX,
    *,
    clock_key: str = "",
    in_place: bool = True,
) -> Script:
    """Compose a script.

    Args:
        name: The verb, such as ``"lease"``.
        options: Letters of :data:`~vtrr_queue.keys.OPTIONS`, sorted: it has the parts for these
            features. A server builds all functions of a script at each call, so it is the cheaper
            the fewer it has. When the queue uses a feature that it has no part for, it does
            nothing and replies ``{"schema", echo, "options <letters>"}``.
        prefix: What the names of the queue's keys begin with.
        clock_key: A string with the time, ms, that is read where others ask the server for it;
            for simulations and tests.
        in_place: Functions stand where they are called; else before the script, to be checked.

    Raises:
        ValueError: The includes form a cycle, or a header names an unknown key or type.
    """
    source = _read(name)
    header = parse_header(source)
    options = OPTIONS if header.optional else options
    found = _found(name, header.includes, options, clock_key)
    text = _living(_given(header) + _body(source), options)
    if in_place:
        text = with_functions(text, _functions(name, header.includes, options, found))
    else:
        text = "\n".join([*(each.whole for each in found.values()), text])
    values = {**CONSTANTS, **_options(options)}
    tables = [f"local {each} = {values.pop(each)}" for each in names_in(text, TABLES)]
    for table in TABLES:
        values.pop(table, None)
    names = {key.upper(): key for key in SCRIPT_KEYS}
    values |= {key: literal(prefix + names[key]) for key in names_in(text, names)}
    text = "\n".join([f"-- vtrr-queue {name}", *tables, with_values(text, values)]) + "\n"
    return _script(name, header, text)


def compose_all(*, in_place: bool = True) -> dict[str, str]:
    """Every script by name, with the functions for optional features.

    Args:
        in_place: As for :func:`load`.
    """
    return {name: load(name, in_place=in_place).text for name in script_names()}


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
        rare="rare" in tags,
        optional=" ".join(tags.get("optional", ())),
        read_only="read_only" in tags,
        returns=" ".join(tags.get("return", ())),
        cost=" ".join(tags.get("cost", ())),
    )


def _script(name: str, header: Header, text: str) -> Script:
    return Script(name, header, text, hashlib.sha1(text.encode()).hexdigest())  # noqa: S324


def _given(header: Header) -> str:
    given = [f"local {argument} = {_ARGUMENT[kind].format(at)}\n"
             for at, (argument, kind, _) in enumerate(header.arguments, start=1)]  # fmt: skip
    if header.rest:
        given.append(f"local {header.rest} = {len(header.arguments) + 1}\n")
    return "".join(given)


def _options(letters: str) -> dict[str, str]:
    uses = ", ".join(f"{letter} = true" for letter in letters)
    return {
        "OPTIONS": f'"{letters}"',
        "OUR_SCHEMA": f'"{SCHEMA}{letters}"',
        "OUR_USES": f"{{ {uses} }}",
    }


def _without(letters: set[str], text: str) -> str:
    """Put false for the features that are left out."""
    for letter in letters:
        text = re.sub(rf"\buses\.{letter}\b", "false", text)
    return text


def _living(text: str, options: str) -> str:
    """What is left of a text for a script that has the parts for these features only."""
    return without_dead_branches(_without(set(OPTIONS) - set(options), text))


def _found(
    name: str, includes: tuple[str, ...], options: str, clock_key: str
) -> dict[str, Function]:
    """What a script calls, itself or through what it calls, each after what it calls itself."""
    ordered = _ordered(name, includes, options=options)
    found = {lib: parse_function(_living(_body(_read(f"lib/{lib}")), options)) for lib in ordered}
    if clock_key:
        found["now_ms"] = parse_function(_CLOCK.format(literal(clock_key)))
    return found


def _functions(
    name: str, includes: tuple[str, ...], options: str, found: dict[str, Function]
) -> list[tuple[Function, bool]]:
    """The same, and whether seldom; what only rare functions need stands inside them."""
    headers = {lib: _header(lib) for lib in found}
    hot = _reached(includes, headers, {lib for lib in found if headers[lib].rare})
    shared = {each for each in hot if found[each].prelude}
    functions: list[tuple[Function, bool]] = []
    for lib in (each for each in found if each in hot):
        function, rare = found[lib], headers[lib].rare
        if rare:
            inner = _ordered(name, headers[lib].includes, options=options)
            function = seldom(function, [found[each] for each in inner if each not in shared])
        functions.append((function, rare))
    return functions


def _reached(includes: tuple[str, ...], headers: dict[str, Header], cold: set[str]) -> set[str]:
    """What is called without passing through a rare function, and the rare ones met."""
    found: set[str] = set()
    ahead = list(includes)
    while ahead:
        lib = ahead.pop()
        if lib in headers and lib not in found:
            found.add(lib)
            ahead += () if lib in cold else headers[lib].includes
    return found


def _ordered(
    name: str, includes: tuple[str, ...], path: tuple[str, ...] = (), *, options: str
) -> list[str]:
    ordered: list[str] = []
    for lib in includes:
        if lib in path:
            message = f"include cycle in {name}: {' -> '.join((*path, lib))}"
            raise ValueError(message)
        header = _header(lib)
        if header.optional and not set(header.optional) & set(options):
            continue
        for entry in (*_ordered(name, header.includes, (*path, lib), options=options), lib):
            if entry not in ordered:
                ordered.append(entry)
    return ordered


def _header(lib: str) -> Header:
    return parse_header(_read(f"lib/{lib}"))


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
