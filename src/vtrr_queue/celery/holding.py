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
class Grant:
    """Why a worker may lease one item.

    Attributes:
        permit: Trigger it takes; None without one.
        serves_until: Until when the end of the run is ground for another lease, monotonic s.
        serves: For how many more.
        pulled: The worker pulls: it needs no trigger.
    """

    permit: Permit | None = None
    serves_until: float = 0.0
    serves: int = 0
    pulled: bool = False

    @property
    def trigger_id(self) -> str:
        """Id of the trigger; "" without one."""
        return "" if self.permit is None else self.permit.trigger_id

    @property
    def sequel(self) -> Grant | None:
        """Ground for another lease when the run ends now; None when there is none."""
        if self.serves > 0 and time.monotonic() < self.serves_until:
            return Grant(serves_until=self.serves_until, serves=self.serves - 1)
        return None


@dataclass(slots=True)
class Held:
    """A lease this worker holds.

    Attributes:
        lease: The lease.
        grant: Why it was taken.
        request: Celery's request, once the pool has accepted it.
        leased_at: When the lease began or, of one taken ahead, when it got its slot, monotonic s.
        submitted: Whether Celery has it.
        ending: Its fate is known, or about to be: a renewal that fails means nothing.
        lost: The server no longer knows it.
        overdue: It is older than ``max_runtime``.
    """

    lease: Lease
    grant: Grant = field(default_factory=Grant)
    request: Any = None
    leased_at: float = field(default_factory=time.monotonic)
    submitted: bool = False
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
