"""Every error the library raises.

::

    VTRRError
    |-- ArgumentError (also ValueError)      a value the caller passed is wrong
    |-- ArgumentTypeError (also TypeError)   a type the caller passed is wrong
    |-- BacklogFull                          a partition has no room for the items
    |-- DuplicateItem                        on_duplicate="error" met a known id
    |-- EnqueueInterrupted                   Redis failed between two chunks of a bulk call
    |-- LeaseLost                            the lease is no longer held
    |-- NotDurable                           stored, but not confirmed on disk or on a replica
    |-- PayloadError (also ValueError)       a payload cannot be serialised
    |-- UndecodablePayload                   a stored payload cannot be read
    |-- SchemaMismatch                       the keys belong to another layout
    |-- Refused                              the server refused a call (no memory, no right)
    |-- ReplyMismatch                        a reply does not answer the call
    `-- Unavailable                          Redis did not answer in time
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtrr_queue.model import Enqueued

SHOWN = 5
"""Most ids an error message spells out."""


class VTRRError(Exception):
    """Base of every error of this library.

    It can be pickled: Celery's pool sends errors to the worker, which ends when it can't read one.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {name: _portable(fact) for name, fact in vars(self).items()}
        return _rebuild, (type(self), str(self), facts)


class ArgumentError(VTRRError, ValueError):
    """A value the caller passed is out of range.

    Args:
        argument: Name of the argument, such as ``"lease_seconds"`` or ``"tasks[3]['weight']"``.
        value: What was passed.
        expected: What is accepted, as a phrase that follows "must be".
    """

    def __init__(self, argument: str, value: object, expected: str) -> None:
        self.argument, self.value, self.expected = argument, value, expected
        super().__init__(f"{argument} must be {expected}, not {_shorten(value)}")


class ArgumentTypeError(VTRRError, TypeError):
    """A value the caller passed has the wrong type.

    Args:
        argument: Name of the argument.
        value: What was passed.
        expected: What is accepted, as a phrase that follows "must be".
    """

    def __init__(self, argument: str, value: object, expected: str) -> None:
        self.argument, self.value, self.expected = argument, value, expected
        kind = type(value).__name__
        super().__init__(f"{argument} must be {expected}, not {_shorten(value)} ({kind})")


class BacklogFull(VTRRError):
    """A partition's ``max_backlog`` has no room for all items of a call; nothing was enqueued.

    Args:
        partition: The partition.
        waiting: Items that wait in it.
        max_backlog: Its bound.
        items: Items of the call.
    """

    def __init__(self, partition: str, waiting: int, max_backlog: int, items: int) -> None:
        self.partition, self.waiting = partition, waiting
        self.max_backlog, self.items = max_backlog, items
        super().__init__(
            f"partition {_shorten(partition)} has {waiting} items waiting, max_backlog is "
            f"{max_backlog}: no room for {items} more, nothing was enqueued"
        )


class PayloadError(VTRRError, ValueError):
    """A payload cannot be serialised; nothing was enqueued.

    Args:
        argument: Where it stands, such as ``"tasks[3]"``.
        cause: What the serialiser said.
    """

    def __init__(self, argument: str, cause: object) -> None:
        self.argument, self.cause = argument, cause
        super().__init__(f"{argument} cannot be serialised: {cause}")


class UndecodablePayload(VTRRError):
    """A stored payload cannot be read; it is kept as a dead letter.

    Args:
        reason: What went wrong.
    """

    def __init__(self, reason: object) -> None:
        self.reason = reason
        super().__init__(f"payload cannot be decoded: {reason}")


class DuplicateItem(VTRRError):
    """An id is already waiting or running, or twice in the call; nothing was enqueued.

    Args:
        item_ids: The ids that are known already, in the caller's order.
        what: What is wrong with them.
    """

    def __init__(self, item_ids: Sequence[str], what: str = "already waiting or running") -> None:
        self.item_ids = list(item_ids)
        shown = ", ".join(repr(i) for i in self.item_ids[:SHOWN])
        more = f" and {len(self.item_ids) - SHOWN} more" if len(self.item_ids) > SHOWN else ""
        super().__init__(f"{what}: {shown}{more}")


class EnqueueInterrupted(VTRRError):
    """Redis failed inside a bulk call; enqueuing the same ids again is safe.

    Args:
        stored: Ids known to be stored.
        unknown: Ids whose storing could not be confirmed.
    """

    def __init__(self, stored: Sequence[str], unknown: Sequence[str]) -> None:
        self.stored, self.unknown = list(stored), list(unknown)
        super().__init__(
            f"Redis failed while enqueuing: {len(self.stored)} items are stored, "
            f"{len(self.unknown)} unconfirmed; enqueue those ids again",
        )


class LeaseLost(VTRRError):
    """The lease is no longer held; a newer delivery may own the item.

    Args:
        item_id: The item.
    """

    def __init__(self, item_id: str) -> None:
        self.item_id = item_id
        super().__init__(f"the lease of item {item_id!r} is no longer held")


class SchemaMismatch(VTRRError):
    """The keys in Redis were written by an incompatible release.

    Args:
        found: Layout number found; empty when keys exist without one (release 0.2).
        expected: Layout number this release reads and writes.
        prefix: Key prefix of the queue.
    """

    def __init__(self, found: str, expected: str, prefix: str) -> None:
        self.found, self.expected, self.prefix = found, expected, prefix
        if found == "migrating":
            how = (
                "a conversion from release 0.2 is under way or was interrupted: let it end, or "
                "run 'python -m vtrr_queue.migrate' again"
            )
        elif found:
            how = "upgrade every process that uses this queue to the same release"
        else:
            how = (
                "these are keys of release 0.2 or of another program: convert them with "
                "'python -m vtrr_queue.migrate --redis URL --name NAME'"
            )
        super().__init__(
            f"keys under {prefix!r} have layout {found or 'none'}, "
            f"this release needs layout {expected}; {how}",
        )


class NotDurable(VTRRError):
    """Items are stored and will run, but what ``durability=`` asks for was not confirmed.

    A crash of the server right now may lose them; enqueuing the same ids again is safe.

    Args:
        item_ids: Ids that are stored.
        level: ``"fsync"`` or ``"replicated"``.
        cause: Why it was not confirmed.
        enqueued: What the call would have returned.
    """

    def __init__(
        self, item_ids: Sequence[str], level: str, cause: object, enqueued: Enqueued | None = None
    ) -> None:
        self.item_ids, self.level, self.cause = tuple(item_ids), level, str(cause)
        self.enqueued = enqueued
        shown = ", ".join(repr(item_id) for item_id in self.item_ids[:SHOWN])
        more = "" if len(self.item_ids) <= SHOWN else f" and {len(self.item_ids) - SHOWN} more"
        super().__init__(
            f"items are stored, but durability={level!r} is not confirmed: {self.cause} "
            f"(stored: {shown}{more})"
        )


class Refused(VTRRError):
    """The server refused a script or a read; nothing was changed by it.

    Args:
        script: Script that was called, or first command of the read.
        cause: What the server said: out of memory, no permission, a key of another type.
    """

    def __init__(self, script: str, cause: Exception) -> None:
        self.script, self.cause = script, cause
        super().__init__(f"{script}: Redis refused: {cause}")


class ReplyMismatch(VTRRError):
    """A reply answers another call; the connection was dropped.

    Args:
        script: Script that was called.
        expected: Echo that was due.
        got: Echo that came.
    """

    def __init__(self, script: str, expected: object, got: object) -> None:
        self.script, self.expected, self.got = script, expected, got
        super().__init__(f"{script}: reply echoes {got!r}, expected {expected!r}")


class Unavailable(VTRRError):
    """Redis did not answer within the attempts allowed, or only that it cannot serve now.

    Args:
        script: Script that was called.
        attempts: How often it was tried.
        cause: The last error.
    """

    def __init__(self, script: str, attempts: int, cause: BaseException | None) -> None:
        self.script, self.attempts, self.cause = script, attempts, cause
        # By name: valkey-py has a class of its own, and only the clients import theirs.
        is_refusal = any(kind.__name__ == "ResponseError" for kind in type(cause).__mro__)
        what = "refused" if is_refusal else "did not answer in"
        super().__init__(f"{script}: Redis {what} {attempts} attempts: {cause}")


def _rebuild(kind: type[VTRRError], message: str, facts: dict[str, Any]) -> VTRRError:
    error = kind.__new__(kind, message)
    error.__dict__.update(facts)
    return error


def _portable(fact: object) -> object:
    try:
        pickle.loads(pickle.dumps(fact))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - a foreign object may fail in any way
        return _shorten(fact)
    return fact


def _shorten(value: object, limit: int = 120) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a huge integer, endless nesting, a half-built object
        text = f"<{type(value).__name__} that cannot be printed>"
    return text if len(text) <= limit else text[: limit - 3] + "..."
