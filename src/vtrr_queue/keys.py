"""Every key name, the layout number, and how a queue's keys are found.

Invariant: no other module spells a key name.
"""

from __future__ import annotations

from dataclasses import dataclass

from vtrr_queue.errors import ArgumentError
from vtrr_queue.model import PRIORITY_DEFAULT

PREFIX = "vtrr:"
"""What all our keys begin with."""

SCHEMA = "5"
"""Layout number kept in the ``schema`` key while a queue holds anything."""

OPTIONS = "cdlprx"
"""Letters after the number while a queue uses some of these: cancels, delays, priority levels,
policies, run time as charge, dead letters."""


DEAD_LETTERS = "x"
"""The letter of them."""


def is_our_layout(schema: str) -> bool:
    """Whether a queue with this text in its ``schema`` key is laid out as this release does it."""
    return schema.rstrip(OPTIONS) == SCHEMA


SCRIPT_KEYS = (
    "queue",
    "current_virtual_time",
    "partition_virtual_time",
    "task",
    "inflight",
    "lease",
    "running",
    "policy",
    "parked",
    "delayed",
    "estimate",
    "triggers",
    "dead",
    "dead_index",
    "schema",
    "backlog",
    "recent",
    "level",
    "levels",
    "rate",
    "cancelled",
    "holes",
    "stats",
    "service",
)
"""Keys that scripts name.

``backlog``, ``recent``, ``level`` and ``service`` are prefixes: scripts append ``:<partition>``,
``:<producer>``, ``:<priority>:<partition>`` and ``:<minute>``.
"""

KEY_PREFIXES = frozenset({"backlog", "recent", "level", "service"})
"""Keys that go on after a colon."""

SCHEDULING_KEYS = (
    "queue",
    "current_virtual_time",
    "partition_virtual_time",
    "task",
    "inflight",
    "lease",
    "running",
    "parked",
    "delayed",
    "estimate",
    "levels",
    "cancelled",
    "holes",
)
"""Keys that must be gone when nothing waits and nothing runs (invariant I11)."""


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """Key names of one queue.

    Args:
        name: Queue name, the namespace.
        hash_tag: Wrap the name in braces so that a cluster keeps all keys in one slot.

    Raises:
        ArgumentError: The name has braces, or keys of two queues could be the same: the backlog of
            partition ``x:task`` of ``files`` is the ``task`` of a queue ``files:backlog:x``.
    """

    name: str
    hash_tag: bool = False

    def __post_init__(self) -> None:
        if set(self.name) & set("{}"):
            raise ArgumentError("name", self.name, "free of braces (they mark cluster hash tags)")
        if KEY_PREFIXES & set(self.name.split(":")[1:]):
            reserved = ", ".join(f"':{key}'" for key in sorted(KEY_PREFIXES))
            why = f"free of {reserved}, which are keys of the queue before the colon"
            raise ArgumentError("name", self.name, why)

    @property
    def prefix(self) -> str:
        """Common start of every key of this queue, ``vtrr:files:``."""
        return f"{PREFIX}{{{self.name}}}:" if self.hash_tag else f"{PREFIX}{self.name}:"

    def __getitem__(self, key: str) -> str:
        return self.prefix + key

    def backlog(self, partition: str, priority: int = PRIORITY_DEFAULT) -> str:
        """Name of the list of waiting item ids of a partition and a priority."""
        key = "backlog" if priority == PRIORITY_DEFAULT else f"level:{priority}"
        return f"{self.prefix}{key}:{partition}"

    def service(self, minute: int) -> str:
        """Name of the hash of what partitions were charged in a minute since the epoch."""
        return f"{self.prefix}service:{minute}"

    @property
    def declared(self) -> tuple[str, ...]:
        """Keys that a call of a script declares: one that tells a cluster the slot.

        In a cluster also one that never exists: while a slot moves key by key, a server that finds
        one of two keys missing refuses the call before it begins, instead of in the middle.
        """
        return (self["schema"], self["never"]) if self.hash_tag else (self["schema"],)

    @property
    def wake_channel(self) -> str:
        """Publish/subscribe channel of the hint that something became servable."""
        return self.prefix + "wake"
