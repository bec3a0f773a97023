"""Who comes when, and one run of it through one lane."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtrr_queue.demo.ledger import Ledger
from vtrr_queue.demo.outcome import DemoFailed
from vtrr_queue.demo.tasks import runs_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

FLOOD = "flood"
SMALL = ("acme", "bolt", "core", "dune", "echo")
POLL_SECONDS = 0.1
_MOMENT_SECONDS = 0.3
_MOST_GAP_SECONDS = 0.05
_SHOWN_FAULTS = 5


@dataclass(frozen=True, slots=True)
class Arrival:
    """A tenant that comes with all its items.

    Attributes:
        tenant: Who.
        count: How many items.
        gap_seconds: Time since the tenant before it had handed over its own.
    """

    tenant: str
    count: int
    gap_seconds: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """A flood, and small tenants a moment later.

    Attributes:
        items: Items of the flooding tenant.
        small: Items of each small tenant.
        seed: Decides the order in which the small tenants come, and the gaps between them.
    """

    items: int = 2_000
    small: int = 20
    seed: int = 1

    @property
    def expected(self) -> dict[str, int]:
        """Tenant -> number of its items."""
        return {FLOOD: self.items} | dict.fromkeys(SMALL, self.small)

    def arrivals(self) -> list[Arrival]:
        """List who comes, in order; the same for every lane."""
        chance = random.Random(self.seed)
        order = chance.sample(SMALL, len(SMALL))
        gaps = [_MOMENT_SECONDS, *(chance.uniform(0, _MOST_GAP_SECONDS) for _ in order[1:])]
        small = [Arrival(name, self.small, gap) for name, gap in zip(order, gaps, strict=True)]
        return [Arrival(FLOOD, self.items, 0.0), *small]


@dataclass(frozen=True)
class Lane:
    """A way for items to go.

    Attributes:
        key: ``"plain"`` or ``"fair"``.
        title: Name for people.
        enqueue: Hands a tenant's items over, in steps.
    """

    key: str
    title: str
    enqueue: Callable[[str, int], Iterator[None]]


@dataclass(frozen=True)
class Run:
    """One run of the scenario through one lane.

    Attributes:
        lane: The lane.
        ledger: What ran.
        started_at: Monotonic clock at the first enqueue, s.
    """

    lane: Lane
    ledger: Ledger
    started_at: float

    @property
    def elapsed_seconds(self) -> float:
        """Time since the first enqueue."""
        return time.monotonic() - self.started_at

    def read(self, client: redis.Redis) -> None:
        """Enter what the tasks noted since the last call."""
        self.ledger.add(client.lrange(runs_key(self.lane.key), self.ledger.rows, -1))

    def verify(self) -> None:
        """Accept nothing but one run of each item.

        Raises:
            DemoFailed: An item was lost or ran twice.
        """
        faults = self.ledger.faults()
        if faults:
            shown = "; ".join(faults[:_SHOWN_FAULTS])
            raise DemoFailed(f"{self.lane.title}: {len(faults)} faults: {shown}")


def play(
    scenario: Scenario,
    lane: Lane,
    client: redis.Redis,
    timeout_seconds: float,
    observe: Callable[[Run], None],
) -> tuple[Run, float]:
    """Send everybody through a lane and wait until every item ran.

    Args:
        scenario: Who comes when.
        lane: Where they go.
        client: Server on which the tasks note their runs.
        timeout_seconds: How long it may take.
        observe: Called about ten times a second; it raises to give up.

    Returns:
        The run, and how long it took in s.

    Raises:
        DemoFailed: It took too long, or an item ran twice.
    """
    run = Run(lane, Ledger(scenario.expected), time.monotonic())
    for pause in itertools.chain(_feed(scenario, lane), itertools.repeat(POLL_SECONDS)):
        time.sleep(pause)
        run.read(client)
        observe(run)
        if run.ledger.complete:
            break
        if run.elapsed_seconds > timeout_seconds:
            raise DemoFailed(
                f"{lane.title}: only {run.ledger.rows} of {run.ledger.total} items had run "
                f"after {timeout_seconds:g} s; give a slow machine more with --timeout",
            )
    seconds = run.elapsed_seconds
    run.verify()
    return run, seconds


def _feed(scenario: Scenario, lane: Lane) -> Iterator[float]:
    """Hand over everything; yields how long to pause before going on."""
    for arrival in scenario.arrivals():
        if arrival.gap_seconds:
            yield arrival.gap_seconds
        for _ in lane.enqueue(arrival.tenant, arrival.count):
            yield 0.0
