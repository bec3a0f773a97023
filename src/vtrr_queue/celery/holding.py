"""What a worker holds: permits, leases, and runs that ended and are not settled yet."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from celery.utils.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtrr_queue.celery.request import Fate
    from vtrr_queue.model import Lease

logger = get_logger(__name__)


@dataclass(slots=True)
class Permit:
    """A trigger that reached this worker.

    Attributes:
        trigger_id: Its id in the ledger.
        acknowledge: Acks its message.
    """

    trigger_id: str
    acknowledge: Callable[..., None]

    def ack(self) -> None:
        """Tell the broker that the trigger did its work."""
        try:
            self.acknowledge(logger, ())
        except Exception as exc:  # noqa: BLE001 - the broker sends it again, which is harmless
            logger.debug("trigger %s not acknowledged: %r", self.trigger_id, exc)


@dataclass(slots=True)
class Held:
    """A lease this worker holds.

    Attributes:
        lease: The lease.
        permit: Trigger it was taken with.
        request: Celery's request, once the pool has accepted it.
        leased_at: When the lease began, monotonic s.
        ending: Its fate is known, or about to be: a renewal that fails means nothing.
        lost: The server no longer knows it.
        overdue: It is older than ``max_runtime``.
    """

    lease: Lease
    permit: Permit | None
    request: Any = None
    leased_at: float = field(default_factory=time.monotonic)
    ending: bool = False
    lost: bool = False
    overdue: bool = False

    @property
    def started(self) -> bool:
        """Whether the pool has accepted it."""
        return self.request is not None


@dataclass(slots=True)
class Ended:
    """A run whose fate must reach Redis.

    Attributes:
        lease: Its lease.
        fate: What becomes of it.
        why: For people.
        due: Not before this moment, monotonic s.
        exception: What ended it, for a dead letter.
        traceback: Its traceback, for a dead letter.
    """

    lease: Lease
    fate: Fate
    why: str
    due: float = 0.0
    exception: str = ""
    traceback: str = ""
