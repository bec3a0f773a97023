"""A pool of workers in simulated time."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vtrr_queue.simulate.orders import Order, Taken


@dataclass(frozen=True, slots=True)
class Tenant:
    """One partition and its items.

    Attributes:
        name: The partition.
        seconds: Mean run time of an item, s.
        backlog: Items that wait at the start.
        rate: Items a second that arrive later, at random (Poisson).
        begins: When they begin to arrive, s.
        exponential: Run times vary exponentially around the mean; else all are equal.
        group: Tenants that are shown together.
        policy: Settings as for ``set_partition``.
    """

    name: str
    seconds: float
    backlog: int = 0
    rate: float = 0.0
    begins: float = 0.0
    exponential: bool = False
    group: str = ""
    policy: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Run:
    """What came of a simulation.

    Attributes:
        workers: Pool size.
        seconds: Simulated time.
        served: Start (s), end (s), partition and wait (s) of every item that was served.
        tenants: Those that took part.
    """

    workers: int
    seconds: float
    served: list[tuple[float, float, str, float]]
    tenants: Sequence[Tenant]

    def worker_seconds(self, begin: float = 0.0, end: float | None = None) -> dict[str, float]:
        """Partition -> worker time used in a span of time."""
        last = self.seconds if end is None else end
        used: dict[str, float] = {tenant.name: 0.0 for tenant in self.tenants}
        for started, ended, name, _ in self.served:
            used[name] += max(0.0, min(ended, last) - max(started, begin))
        return used

    def waits(self, group: str) -> list[float]:
        """Waiting times of a group's items that were served, sorted, s."""
        names = {tenant.name for tenant in self.tenants if (tenant.group or tenant.name) == group}
        return sorted(wait for _, _, name, wait in self.served if name in names)


Change = tuple[float, str, dict[str, Any]]
"""Time (s), partition, settings."""


def simulate(
    order: Order, tenants: Sequence[Tenant], *, workers: int = 16, seconds: float = 3600.0,
    charge: str = "weight", seed: int = 1, changes: Iterable[Change] = (),
) -> Run:  # fmt: skip
    """Let workers serve tenants for a while.

    Args:
        order: What gives the next item.
        tenants: Whose items come when.
        workers: Pool size.
        seconds: How long, simulated.
        charge: ``"weight"`` or ``"runtime"``.
        seed: Of arrivals and run times.
        changes: Policies that are set on the way.
    """
    pool = _Pool(order, tenants, workers, seed)
    order.rule("", {"charge": charge}, 0)
    for tenant in tenants:
        if tenant.policy:
            order.rule(tenant.name, tenant.policy, 0)
        if tenant.backlog:
            pool.at(tenant.begins, partial(pool.put, tenant, tenant.backlog))
        if tenant.rate:
            pool.at(tenant.begins + pool.pause(tenant), partial(pool.arrive, tenant))
    for at, name, settings in changes:
        pool.at(at, partial(pool.rule, name, settings))
    pool.run(seconds)
    return Run(workers, seconds, pool.served, tenants)


class _Pool:
    """Workers, and what happens when."""

    def __init__(self, order: Order, tenants: Sequence[Tenant], workers: int, seed: int) -> None:
        self.order, self.free = order, workers
        self.served: list[tuple[float, float, str, float]] = []
        self._tenants = {tenant.name: tenant for tenant in tenants}
        self._chance = random.Random(seed)  # noqa: S311 - a simulation
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._born: dict[str, float] = {}
        self._wake = math.inf

    def at(self, when: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), act))

    def pause(self, tenant: Tenant) -> float:
        return self._chance.expovariate(tenant.rate)

    def run(self, seconds: float) -> None:
        while self._events and self._events[0][0] <= seconds:
            now, _, act = heapq.heappop(self._events)
            act(now)
            self._serve(now)

    def put(self, tenant: Tenant, count: int, now: float) -> None:
        ids = [f"{tenant.name}-{next(self._numbers)}" for _ in range(count)]
        self._born |= dict.fromkeys(ids, now)
        self.order.put(tenant.name, ids, _ms(now))

    def arrive(self, tenant: Tenant, now: float) -> None:
        self.put(tenant, 1, now)
        self.at(now + self.pause(tenant), partial(self.arrive, tenant))

    def rule(self, name: str, settings: dict[str, Any], now: float) -> None:
        self.order.rule(name, settings, _ms(now))

    def end(self, taken: Taken, now: float) -> None:
        self.order.end(taken, _ms(now))
        self.free += 1

    def look(self, _now: float) -> None:
        self._wake = math.inf

    def _serve(self, now: float) -> None:
        while self.free and (taken := self.order.take(_ms(now))):
            self.free -= 1
            tenant = self._tenants[taken[2]]
            took = tenant.seconds
            if tenant.exponential:
                took = max(0.001, self._chance.expovariate(1 / took))
            self.served.append((now, now + took, tenant.name, now - self._born.pop(taken[0])))
            self.at(now + took, partial(self.end, taken))
        wake = self.order.wake_ms() if self.free else None
        if wake is not None and now < wake / 1000 < self._wake:
            self._wake = wake / 1000
            self.at(self._wake, self.look)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def zipf_tenants(count: int, load: float, seconds: float, workers: int) -> list[Tenant]:
    """Tenants whose demand falls as 1/rank, and which together ask for a part of the pool.

    Args:
        count: How many.
        load: Demand of all together, as a multiple of what the pool can do.
        seconds: Mean run time of an item, s.
        workers: Pool size.
    """
    total = sum(1 / rank for rank in range(1, count + 1))
    rates = [load * workers / seconds / rank / total for rank in range(1, count + 1)]
    groups = ["largest", *["next nine"] * 9, *["all others"] * count]
    return [Tenant(f"t{rank:04d}", seconds, rate=rate, exponential=True, group=groups[rank])
            for rank, rate in enumerate(rates)]  # fmt: skip
