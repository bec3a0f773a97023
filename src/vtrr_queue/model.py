"""The values that travel between the layers, all immutable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from vtrr_queue.errors import ArgumentError

OnDuplicate = Literal["skip", "error"]
ReclaimPosition = Literal["back", "front"]
DurabilityLevel = Literal["fsync", "replicated"]

WEIGHT_MIN, WEIGHT_MAX = 0.001, 1e9
"""Accepted weights; scripts check them again."""

SHARE_MIN, SHARE_MAX = 0.01, 100.0
"""Accepted shares; scripts check them again."""

PRIORITY_DEFAULT, PRIORITY_MAX = 5, 9
"""Priority of an item that names none; 0 comes first, 9 last."""

FIRST_CHARGE_MS = 100.0
"""Expected run time before anything has run (``charge="runtime"``), ms."""

ESTIMATE_STEP = 0.2
"""How far one run moves the mean run time towards its own."""

SLOT_MS, SLOTS = 60_000, 5
"""What partitions were charged is kept by the minute, for the last five and the one under way."""

SHORT_RECORD, SHORT_NAME = 64, 191
"""The first byte of a short task record is this much more than its partition's length, at most."""

SHORT_EPOCH_MS, SHORT_SPAN_MS = 1_577_836_800_000, 2**40
"""Moments that fit into the five bytes of a short task record: from 2020 on, for 34 years."""

LONGEST_SECONDS = 1e8
"""Longest time a setting may say, s: three years."""


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to be enqueued.

    Attributes:
        item_id: Unique among waiting and running items.
        body: Opaque bytes, see :mod:`vtrr_queue.payload`.
        weight: Turns of its partition that the item uses, 0.001 to 1e9; 1 when None. Where run time
            is charged, how long it is expected to run, s.
        delay_ms: Wait at least this long before the item may be served, ms.
        priority: Place inside its partition, 0 first, 9 last.

    Raises:
        ArgumentError: The weight or the priority is out of range: a weight of 0 or less would
            never let others come.
    """

    item_id: str
    body: bytes
    weight: float | None = None
    delay_ms: int = 0
    priority: int = PRIORITY_DEFAULT

    def __post_init__(self) -> None:
        if self.weight is not None and not WEIGHT_MIN <= self.weight <= WEIGHT_MAX:
            raise ArgumentError("weight", self.weight, f"{WEIGHT_MIN:g} to {WEIGHT_MAX:g}")
        if not 0 <= self.priority <= PRIORITY_MAX:
            raise ArgumentError("priority", self.priority, f"0 to {PRIORITY_MAX}")


@dataclass(frozen=True, slots=True)
class Lease:
    """The time-limited right to run one item.

    Attributes:
        item_id: The item.
        token: Fencing token, 32 hex characters.
        partition: Partition the item belongs to.
        timeouts: Earlier leases of this item that expired or were lost.
        retries: Celery retries so far.
        expires_at_ms: Expiry, server clock, ms since the epoch.
        weight: Weight of the item.
        body: Opaque bytes as enqueued.
        since_ms: When it could be served first, or again after a retry or a requeue, server clock;
            None when not known.
    """

    item_id: str
    token: str
    partition: str
    timeouts: int
    retries: int
    expires_at_ms: int
    weight: float
    body: bytes = field(repr=False)
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """What a script says should happen next.

    Attributes:
        triggers: Ids of the triggers to publish now; the ledger has them already.
        next_wake_ms: Earliest moment, server clock, at which an item becomes due or a
            lease must be looked at; None when there is none.
        server_now_ms: Server clock at the call.
        waiting: Servable or blocked items in the backlogs after the call.
    """

    triggers: tuple[str, ...] = ()
    next_wake_ms: int | None = None
    server_now_ms: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Durability:
    """What an enqueue waits for.

    Attributes:
        level: ``"fsync"``: the server's append-only file is on disk; ``"replicated"``: a replica
            has it.
        timeout_seconds: Longest wait, s.
    """

    level: DurabilityLevel
    timeout_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Result of an enqueue.

    Attributes:
        item_ids: Ids of all entries in the caller's order, known ones included.
        duplicates: The ids that were waiting or running already.
        wake: Triggers to publish.
    """

    item_ids: tuple[str, ...]
    duplicates: tuple[str, ...]
    wake: Wake


@dataclass(frozen=True, slots=True)
class Leased:
    """Result of a lease call.

    Attributes:
        items: Leased items in fair order, empty when nothing is servable.
        wake: Triggers to publish and when to come again.
    """

    items: tuple[Lease, ...]
    wake: Wake


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of an ack, a release, a retry or a burial.

    Attributes:
        held: Whether the lease was still held, so that the call took effect.
        wake: Triggers to publish.
        dead: Whether the item is a dead letter now.
    """

    held: bool
    wake: Wake
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Result of a cancel.

    Attributes:
        waiting: Ids of items that waited; they are gone.
        running: Ids of items that run; they go on, and do not run again.
        backlog: How many more waited in a partition that was cancelled whole; they are gone.
    """

    waiting: tuple[str, ...]
    running: tuple[str, ...]
    backlog: int = 0


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Result of a reclaim.

    Attributes:
        count: Leases that had expired.
        wake: Triggers to publish.
        died: How many of their items are dead letters now; the others were put back.
    """

    count: int
    wake: Wake
    died: int = 0


@dataclass(frozen=True, slots=True)
class TriggerBudget:
    """How many triggers may stand at once.

    Attributes:
        max_outstanding: Most triggers in the ledger; 0 asks for none.
        timeout_ms: Age after which a trigger counts as lost, ms.
    """

    max_outstanding: int = 0
    timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class DeadLetterRules:
    """When an item becomes a dead letter by itself, and which letters are kept.

    Attributes:
        max_timeouts: Leases of an item that may time out: the last of them makes it a dead
            letter; None for no end.
        max_letters: Most letters kept; the oldest go first.
        max_age_seconds: Longest a letter is kept, s.

    Raises:
        ArgumentError: A value is out of range.
    """

    max_timeouts: int | None = None
    max_letters: int = 10_000
    max_age_seconds: float = 30 * 86_400

    def __post_init__(self) -> None:
        if self.max_timeouts is not None and self.max_timeouts < 1:
            raise ArgumentError("max_timeouts", self.max_timeouts, "at least 1, or None")
        if self.max_letters < 1:
            raise ArgumentError("max_letters", self.max_letters, "at least 1")
        if not 0 < self.max_age_seconds <= LONGEST_SECONDS:
            expected = f"above 0 and at most {LONGEST_SECONDS:g}"
            raise ArgumentError("max_age_seconds", self.max_age_seconds, expected)

    @property
    def text(self) -> str:
        """As scripts read them: "max-timeouts max-letters max-age-ms", 0 for no end."""
        return f"{self.max_timeouts or 0} {self.max_letters} {round(self.max_age_seconds * 1000)}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An item kept for good.

    Attributes:
        item_id: The item.
        partition: Its partition.
        reason: Why it is here.
        died_at_ms: When, server clock, ms since the epoch.
        timeouts: Runs that were lost.
        retries: Celery retries.
        weight: Weight of the item.
        body: Opaque bytes as enqueued.
        exception: ``repr`` of the exception that ended the last run, or empty.
        traceback: Its traceback, or empty.
        started_at_ms: Start of the last run, server clock; None when not known.
    """

    item_id: str
    partition: str
    reason: str
    died_at_ms: int
    timeouts: int
    retries: int
    weight: float
    body: bytes = field(repr=False)
    exception: str = ""
    traceback: str = field(default="", repr=False)
    started_at_ms: int | None = None
