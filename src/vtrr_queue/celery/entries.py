"""Checks what callers pass, before Redis is touched.

Invariant: an error names the argument and the value; an entry's error names its index and key.
"""

from __future__ import annotations

import math
import uuid
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
from vtrr_queue.payload import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRY_KEYS = ("args", "kwargs", "weight", "priority", "id")
"""Keys an entry of ``task.queue`` may have."""

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


def read_entries(tasks: object, task_name: str, serializer: str) -> list[NewItem]:
    """Check and serialise every entry of a ``task.queue`` call.

    Args:
        tasks: The caller's list of dicts.
        task_name: Celery task the items are for.
        serializer: kombu serialiser name.

    Returns:
        One item an entry, in order.

    Raises:
        ArgumentTypeError: A type is wrong.
        ArgumentError: A value is wrong.
        PayloadError: An entry cannot be serialised.
    """
    if not isinstance(tasks, list | tuple):
        raise ArgumentTypeError("tasks", tasks, "a list of dicts")
    return [
        _read_entry(f"tasks[{at}]", entry, task_name, serializer) for at, entry in enumerate(tasks)
    ]


def _read_entry(name: str, entry: object, task_name: str, serializer: str) -> NewItem:
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
    item_id = str(uuid.uuid4())
    if "id" in entry:
        item_id = check_text(f"{name}['id']", entry["id"], ID_MAX)
    try:
        body = encode(task_name, args, kwargs, serializer=serializer, argument=name)
    except PayloadError as exc:
        part = _culprit(task_name, args, serializer)
        raise PayloadError(f"{name}[{part!r}]", exc.cause) from exc
    return NewItem(item_id, body, weight, priority=priority)


def _culprit(task_name: str, args: list[Any], serializer: str) -> str:
    try:
        encode(task_name, args, {}, serializer=serializer)
    except PayloadError:
        return "args"
    return "kwargs"
