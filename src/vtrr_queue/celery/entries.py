"""Checks what callers pass, before Redis is touched.

Invariant: an error names the argument and the value; an entry's error names its index and key.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vtrr_queue.errors import ArgumentError, ArgumentTypeError, PayloadError
from vtrr_queue.model import (
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    WEIGHT_MAX,
    WEIGHT_MIN,
    Durability,
    NewItem,
)
from vtrr_queue.payload import CallEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ENTRY_KEYS = ("args", "kwargs", "weight", "priority", "id")
"""Keys an entry of ``task.queue`` may have."""

_VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}

PARTITION_MAX = 65_536
"""Longest partition name, bytes in UTF-8."""

ID_MAX = 4_096
"""Longest item id, bytes in UTF-8."""


def check_text(argument: str, value: object, most: int) -> str:
    """A non-empty string that UTF-8 can carry.

    Raises:
        ArgumentTypeError: It is no string.
        ArgumentError: It is empty, too long, or holds lone surrogates.
    """
    if not isinstance(value, str):
        raise ArgumentTypeError(argument, value, "a string")
    if not value:
        raise ArgumentError(argument, value, "a non-empty string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as exc:
        raise ArgumentError(argument, value, "valid text (it holds lone surrogates)") from exc
    if size > most:
        raise ArgumentError(argument, value, f"at most {most} bytes long ({size} given)")
    return value


def check_number(
    argument: str, value: object, least: float = 0.0, most: float = math.inf, *, above: bool = False
) -> float:
    """A finite number in a range; bool is none.

    Args:
        argument: How an error names it.
        value: What was passed.
        least: Smallest accepted value.
        most: Largest accepted value.
        above: ``least`` itself is refused.

    Raises:
        ArgumentTypeError: It is no int or float.
        ArgumentError: It is out of range, infinite or not a number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentTypeError(argument, value, "a number")
    bounds = f"greater than {least:g}" if above else f"at least {least:g}"
    if most < math.inf:
        bounds += f" and at most {most:g}"
    try:
        number = float(value)
    except OverflowError as exc:
        raise ArgumentError(argument, value, bounds) from exc
    if not math.isfinite(number) or number > most or number < least or (above and number == least):
        raise ArgumentError(argument, value, f"a finite number {bounds}")
    return number


def check_integer(argument: str, value: object, least: int, most: int) -> int:
    """An int in a range; bool is none.

    Raises:
        ArgumentTypeError: It is no int.
        ArgumentError: It is out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(argument, value, "an integer")
    if not least <= value <= most:
        raise ArgumentError(argument, value, f"from {least} to {most}")
    return value


def check_weight(argument: str, value: object) -> float:
    """A weight."""
    return check_number(argument, value, WEIGHT_MIN, WEIGHT_MAX)


def check_priority(argument: str, value: object) -> int:
    """A priority; None is the default one."""
    return PRIORITY_DEFAULT if value is None else check_integer(argument, value, 0, PRIORITY_MAX)


def check_flag(argument: str, value: object) -> bool:
    """True or False, no other value that Python would take for one."""
    if not isinstance(value, bool):
        raise ArgumentTypeError(argument, value, "True or False")
    return value


def check_choice(argument: str, value: object, choices: Sequence[str]) -> str:
    """One of a few words.

    Raises:
        ArgumentError: It is none of them.
    """
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(argument, value, " or ".join(repr(choice) for choice in choices))
    return value


def check_durability(level: object, timeout: object) -> Durability | None:
    """What an enqueue is to wait for.

    Raises:
        ArgumentError: The level is no word we know, or the timeout is out of range.
        ArgumentTypeError: The timeout is no number.
    """
    seconds = check_number("durability_timeout", timeout, 0.001, 3600)
    if level is None:
        return None
    check_choice("durability", level, ("fsync", "replicated"))
    return Durability("fsync" if level == "fsync" else "replicated", seconds)


def check_args(argument: str, value: object) -> list[Any]:
    """Positional arguments of a call.

    Raises:
        ArgumentTypeError: They are no list or tuple.
    """
    if not isinstance(value, list | tuple):
        raise ArgumentTypeError(argument, value, "a list or tuple")
    return list(value)


def check_kwargs(argument: str, value: object) -> dict[str, Any]:
    """Keyword arguments of a call.

    Raises:
        ArgumentTypeError: They are no dict with strings as keys.
    """
    if not isinstance(value, dict):
        raise ArgumentTypeError(argument, value, "a dict")
    for key in value:
        if not isinstance(key, str):
            raise ArgumentTypeError(f"{argument} key", key, "a string")
    return value


def read_entries(
    tasks: object,
    task_name: str,
    serializer: str,
    headers: Mapping[str, Any] | None = None,
    compression: str | None = None,
) -> list[NewItem]:
    """Check and serialise every entry of a ``task.queue`` call.

    Args:
        tasks: The caller's list of dicts.
        task_name: Celery task the items are for.
        serializer: kombu serialiser name.
        headers: Message headers of all of them.
        compression: kombu's name of a compression, None for none.

    Returns:
        One item an entry, in order.

    Raises:
        ArgumentTypeError: A type is wrong.
        ArgumentError: A value is wrong.
        PayloadError: An entry cannot be serialised.
    """
    if not isinstance(tasks, list | tuple):
        raise ArgumentTypeError("tasks", tasks, "a list of dicts")
    calls = CallEncoder(task_name, serializer, headers, compression)
    return [
        _read_entry(at, entry, item_id, calls)
        for at, (entry, item_id) in enumerate(zip(tasks, new_ids(len(tasks)), strict=True))
    ]


def new_ids(count: int) -> Iterator[str]:
    """Random UUIDs of version 4, as Celery gives its tasks.

    ``uuid.uuid4`` takes three times as long, which an enqueue of ten thousand items feels.
    """
    digits = os.urandom(16 * count).hex()
    for at in range(0, len(digits), 32):
        each = digits[at : at + 32]
        variant = _VARIANT[each[16]]
        yield f"{each[:8]}-{each[8:12]}-4{each[13:16]}-{variant}{each[17:20]}-{each[20:]}"


def _read_entry(at: int, entry: object, item_id: str, calls: CallEncoder) -> NewItem:
    name = f"tasks[{at}]"
    weight, priority = None, PRIORITY_DEFAULT
    if type(entry) is dict and len(entry) == 1 and type(entry.get("args")) in {list, tuple}:
        args, kwargs = list(entry["args"]), dict[str, Any]()
    else:
        args, kwargs, weight, priority, item_id = _check_entry(name, entry, item_id)
    try:
        body = calls.encode(args, kwargs, name)
    except PayloadError as exc:
        raise PayloadError(f"{name}[{_culprit(args, calls)!r}]", exc.cause) from exc
    return NewItem(item_id, body, weight, priority=priority)


def _check_entry(
    name: str, entry: object, item_id: str
) -> tuple[list[Any], dict[str, Any], float | None, int, str]:
    if not isinstance(entry, Mapping):
        raise ArgumentTypeError(name, entry, "a dict")
    for key in entry:
        if key not in ENTRY_KEYS:
            allowed = ", ".join(ENTRY_KEYS)
            raise ArgumentError(f"{name}[{key!r}]", entry[key], f"left out: allowed are {allowed}")
    args = check_args(f"{name}['args']", entry.get("args", ()))
    kwargs = check_kwargs(f"{name}['kwargs']", entry.get("kwargs", {}))
    weight = check_weight(f"{name}['weight']", entry["weight"]) if "weight" in entry else None
    level = entry.get("priority", PRIORITY_DEFAULT)
    priority = check_integer(f"{name}['priority']", level, 0, PRIORITY_MAX)
    if "id" in entry:
        item_id = check_text(f"{name}['id']", entry["id"], ID_MAX)
    return args, kwargs, weight, priority, item_id


def _culprit(args: list[Any], calls: CallEncoder) -> str:
    try:
        calls.encode(args, {})
    except PayloadError:
        return "args"
    return "kwargs"
