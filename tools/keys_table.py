"""Write docs/keys.md: what a queue keeps in Redis, from the key list and the script headers.

``python tools/keys_table.py`` writes it; a unit test fails when it is out of step.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from vtrr_queue.keys import KEY_PREFIXES, SCHEDULING_KEYS, SCHEMA, SCRIPT_KEYS, QueueKeys
from vtrr_queue.scripting import parse_header

if TYPE_CHECKING:
    from collections.abc import Iterable

TARGET = Path(__file__).parents[1] / "docs" / "keys.md"

ENDS = {
    "policy": "when it is taken back",
    "triggers": "each when it is taken, lost or withdrawn",
    "dead": "each when its id is enqueued again",
    "dead_index": "with `dead`",
    "schema": "with the last item, unless there are dead letters or policies",
    "backlog": "with its last item",
    "recent": "after some seconds",
    "level": "with its last item",
    "stats": "30 days after a worker last counted",
    "service": "after six minutes",
    "rate": "a minute after it has no effect any more",
}
"""When a key goes that is not among the scheduling keys."""

FORMATS = (("task", "lib/record"), ("lease", "lib/hold_lease"))
"""Keys with a value of their own form, and the file whose first line tells it."""

RESERVED = frozenset({"lib/rest", "lib/next_wake"})
"""A key that only these know is not written by this release."""

_SUFFIX = {"backlog": "<partition>", "recent": "<producer>", "level": "<priority>:<partition>",
           "service": "<minute>"}  # fmt: skip
_TEXT = """\
# Keys in Redis

<!-- Written by tools/keys_table.py from keys.py and the headers of the scripts; don't edit. -->

All keys of the queue `files` begin with `{prefix}`. This layout has the number {schema}, which the
key `schema` holds; keys with another number are refused. Times are server time in ms.

| key | type | content | gone | where it is read or changed |
|---|---|---|---|---|
{rows}

## Forms

{forms}
- `dead`: {dead}.

A partition or an id may hold any character; lengths come before them, so nothing is escaped. The
payload in a record is opaque to the scripts, see `payload.py`.

`{channel}` is a publish/subscribe channel, not a key: a hint that something can be leased
(`ready`) or will become due (`later`). `v2.*` and `v3.*` exist while a queue of release 0.2 is
converted, see [migration.md](migration.md).
"""


def declared() -> dict[str, dict[str, str]]:
    """Mapping key -> file that declares it, without suffix -> what the header says of it."""
    found: dict[str, dict[str, str]] = {key: {} for key in SCRIPT_KEYS}
    root = files("vtrr_queue.scripts")
    for folder, prefix in ((root, ""), (root.joinpath("lib"), "lib/")):
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.name.endswith(".lua"):
                header = parse_header(entry.read_text(encoding="utf-8"))
                for key, text in header.keys.items():
                    found[key][prefix + entry.name.removesuffix(".lua")] = text
    return found


def render() -> str:
    """The text of docs/keys.md."""
    keys = QueueKeys("files")
    table = declared()
    return _TEXT.format(
        prefix=keys.prefix,
        schema=SCHEMA,
        rows="\n".join(_row(key, table[key]) for key in SCRIPT_KEYS),
        forms="\n".join(f"- `{key}`: {_form(name)}" for key, name in FORMATS),
        dead=_longest(table["dead"].values())[1].partition(" -> ")[2],
        channel=keys.wake_channel,
    )


def _row(key: str, where: dict[str, str]) -> str:
    kind, content = _longest(where.values())
    name = f"{key}:{_SUFFIX[key]}" if key in KEY_PREFIXES else key
    gone = "when nothing waits, runs or is delayed" if key in SCHEDULING_KEYS else ENDS[key]
    if RESERVED.issuperset(where):
        content = f"reserved, nothing writes it: {content}"
    places = " ".join(f"`{place}`" for place in where)
    return f"| `{name}` | {kind} | {content} | {gone} | {places} |"


def _longest(texts: Iterable[str]) -> tuple[str, str]:
    """Type and fullest description out of the headers; they must agree on the type."""
    split = [text.split(" ", 1) for text in texts]
    kinds = {kind for kind, _ in split}
    if len(kinds) != 1:
        raise ValueError(f"headers disagree on a type: {sorted(kinds)}")
    return kinds.pop(), max((text.strip() for _, text in split), key=len)


def _form(name: str) -> str:
    text = files("vtrr_queue.scripts").joinpath(f"{name}.lua").read_text(encoding="utf-8")
    return parse_header(text).summary.partition(": ")[2]


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    sys.stdout.write(f"{TARGET} is written\n")
