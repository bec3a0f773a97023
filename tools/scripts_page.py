"""Write docs/reference/scripts.md: every Lua script, from the headers and the composed texts.

``python tools/scripts_page.py`` writes it; a unit test fails when it is out of step.
"""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path

from vtrr_queue.keys import SCRIPT_KEYS
from vtrr_queue.scripting import Script, load, script_names

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "scripts.md"

BESIDE = (
    *("auth", "client|setinfo", "client|setname", "eval", "evalsha", "exec", "hello", "hgetall"),
    *("hmget", "info", "lrange", "multi", "ping", "scan", "select", "subscribe", "unsubscribe"),
    *("wait", "waitaof", "zrevrange", "zscan"),
)
"""Commands that the library sends beside the scripts: connections, hints, ``durability=``, what the
inspector and the dead letters read. The doctor asks with more, and says when it may not."""

STATUSES = {
    "schema": "the keys belong to another layout, or use a feature this text has no part for"
}
"""Replies that mean the same in every script, explained once."""

_TEXT = """\
# Scripts

<!-- Written by tools/scripts_page.py from the headers of the scripts; don't edit. -->

All that changes a queue happens in one of these Lua scripts, each of which is one step for
everybody else. `Engine` has a method for each. They are sent with EVALSHA, and loaded when the
server does not know them; key names stand in the text, so each queue has its own. The one key that
is passed, `vtrr:{{name}}:schema`, tells a cluster where to run it.

A reply is a list: a status word, the echo of the caller (a token, or a word made for this call),
and then what the script has to say. Most go on with the server's time in ms, the number of triggers
to publish, how many items wait, and when to come again (ms, or empty). Besides what is listed,
every script may answer `{{"schema", echo, found}}` and changes nothing then: {schema}.

`replay` counts how often the same call was sent before: a call whose reply was lost is sent again
with the same ids, and takes effect once; see
[idempotent calls](../design/0003-idempotent-calls.md).

{scripts}
## Rights

This gives a user of the server what a queue called `files` needs, and nothing else. Producers and
workers need the same.

```text
ACL SETUSER files on >SECRET resetkeys ~vtrr:files:* resetchannels &vtrr:files:* -@all {commands}
```

For the [doctor](../doctor.md) add `+config|get`, or it will say what it could not look at;
`+command|info` lets `durability="fsync"` find out beforehand whether the server can do it. On
Redis 6.2 leave out `+waitaof` and `+client|setinfo`, which it does not know. The broker is another
matter: there Celery needs rights of its own.
"""

_SCRIPT = """\
## {name}

{summary}

Complexity: {cost}.

| argument | type | meaning |
|---|---|---|
{arguments}

| reply | goes on with |
|---|---|
{replies}

Keys: {keys}.
"""


def render() -> str:
    """The text of docs/reference/scripts.md."""
    scripts = [load(name) for name in script_names()]
    commands = {command.lower() for script in scripts for command in commands_of(script)}
    return _TEXT.format(
        schema=STATUSES["schema"],
        scripts="\n".join(_section(script) for script in scripts),
        commands=" ".join(f"+{command}" for command in sorted(commands.union(BESIDE))),
    )


def commands_of(script: Script) -> set[str]:
    """Commands that a composed script may call.

    Args:
        script: With the parts for all features.
    """
    calls = re.findall(r"redis\.p?call\((.*?)(?:,|\))", script.text)
    return {word for call in calls for word in re.findall(r'"([A-Z]+)"', call)}


def _section(script: Script) -> str:
    header = script.header
    rows = [f"| `{name}` | {kind} | {_cell(text)} |" for name, kind, text in header.arguments]
    if header.rest:
        rows.append(f"| `{header.rest}`, repeated | | {_cell(_rest(script.name))} |")
    return _SCRIPT.format(
        name=script.name,
        summary=header.summary,
        cost=header.cost,
        arguments="\n".join(rows),
        replies="\n".join(_replies(header.returns)),
        keys=" ".join(f"`{key}`" for key in _keys(script)),
    )


def _replies(returns: str) -> list[str]:
    rows = []
    for reply in re.findall(r"\{(.*?)\}", returns):
        status, *fields = [field.strip() for field in reply.split(",")]
        word = status.strip('"')
        if word not in STATUSES:
            rest = ", ".join("empty" if field == '""' else field for field in fields)
            rows.append(f"| `{word}` | {_cell(rest)} |")
    return rows


def _keys(script: Script) -> list[str]:
    """Keys that stand in the composed text, in the order of the key list."""
    found = set(re.findall(r'"vtrr:(\w+)"', script.text))
    return [key for key in SCRIPT_KEYS if key in found]


def _rest(name: str) -> str:
    text = files("vtrr_queue.scripts").joinpath(f"{name}.lua").read_text(encoding="utf-8")
    found = re.search(r"^-- @rest \S+ ?(.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def _cell(text: str) -> str:
    """Text for a cell of a table; a bar would end it, an angle bracket begin HTML."""
    return text.replace("|", r"\|").replace("<", r"\<")


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    sys.stdout.write(f"{TARGET} is written\n")
