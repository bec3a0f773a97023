"""What happens when in a chaos run: a pure function of the seed."""

import hashlib
import random
from dataclasses import dataclass

EVERY_SECONDS = {
    "kill child": 2.5,
    "soft limit": 0.7,
    "kill worker": 9.0,
    "pause worker": 13.0,
    "warm shutdown": 16.0,
    "cold shutdown": 16.0,
    "cut connections": 6.0,
    "lose replies": 11.0,
    "late replies": 14.0,
    "crash state": 21.0,
    "crash broker": 23.0,
}
"""Kind of event -> mean time between two of them, s."""


@dataclass(frozen=True)
class Event:
    """One thing that goes wrong.

    Attributes:
        at: Seconds from the start.
        kind: A key of `EVERY_SECONDS`.
        pick: Chooses whom it hits, 0 to 1.
        seconds: How long it lasts, where it lasts.
    """

    at: float
    kind: str
    pick: float
    seconds: float


def plan(seed: int, seconds: float) -> list[Event]:
    """Events in the order of their time; the same seed gives the same ones."""
    events = []
    for kind, every in EVERY_SECONDS.items():
        chance = random.Random(f"{seed} {kind}")
        at = chance.uniform(0.2, 1.0) * every
        while at < seconds:
            events.append(Event(round(at, 3), kind, round(chance.random(), 6),
                                round(chance.uniform(0.3, 2.0), 3)))  # fmt: skip
            at += chance.expovariate(1 / every)
    return sorted(events, key=lambda event: (event.at, event.kind))


def digest(events: list[Event]) -> str:
    """A short name of a plan, to compare two runs."""
    return hashlib.sha256(repr(events).encode()).hexdigest()[:12]
