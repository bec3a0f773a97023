"""What gives a simulated pool its next item: a plain queue, the reference, the real scripts."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from vtrr_queue.engine import Engine
from vtrr_queue.model import NewItem
from vtrr_queue.policy import policy_words
from vtrr_queue.reference import ReferenceScheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from vtrr_queue.talk import Call

LEASE_MS = 10**12
"""Nobody is killed here."""

CLOCK_KEY = "vtrr-simulation:now"
QUEUE_NAME = "vtrr-simulation"

Taken = tuple[str, str, str]
"""Item id, token, partition."""


class Order(Protocol):
    """What gives the next item."""

    def put(self, partition: str, item_ids: Sequence[str], now_ms: int) -> None:
        """Enqueue items."""

    def take(self, now_ms: int) -> Taken | None:
        """Lease the next item."""

    def end(self, taken: Taken, now_ms: int) -> None:
        """Ack an item."""

    def rule(self, partition: str, settings: dict[str, Any], now_ms: int) -> None:
        """Change a policy; the empty name is the queue."""

    def wake_ms(self) -> int | None:
        """When to look again though nothing has happened."""


class Fifo:
    """First in, first out, as a plain Celery queue."""

    def __init__(self) -> None:
        self._line: deque[Taken] = deque()

    def put(self, partition: str, item_ids: Sequence[str], now_ms: int) -> None:  # noqa: ARG002
        """Enqueue items."""
        self._line.extend((item_id, "", partition) for item_id in item_ids)

    def take(self, now_ms: int) -> Taken | None:  # noqa: ARG002
        """Lease the next item."""
        return self._line.popleft() if self._line else None

    def end(self, taken: Taken, now_ms: int) -> None:
        """Ack an item."""

    def rule(self, partition: str, settings: dict[str, Any], now_ms: int) -> None:
        """Know of no policy."""

    def wake_ms(self) -> int | None:
        """When to look again: never."""
        return None


class Fair:
    """The reference scheduler."""

    def __init__(self) -> None:
        self._queue = ReferenceScheduler(lease_ms=LEASE_MS)

    def put(self, partition: str, item_ids: Sequence[str], now_ms: int) -> None:
        """Enqueue items."""
        for item_id in item_ids:
            self._queue.enqueue(partition, item_id, now_ms=now_ms)

    def take(self, now_ms: int) -> Taken | None:
        """Lease the next item."""
        leases = self._queue.lease(now_ms=now_ms)
        return (leases[0].item_id, leases[0].token, leases[0].partition) if leases else None

    def end(self, taken: Taken, now_ms: int) -> None:
        """Ack an item."""
        self._queue.ack(taken[0], taken[1], now_ms=now_ms)

    def rule(self, partition: str, settings: dict[str, Any], now_ms: int) -> None:
        """Change a policy."""
        self._queue.set_policy(partition, policy_words(settings), now_ms=now_ms)

    def wake_ms(self) -> int | None:
        """When to look again though nothing has happened."""
        return self._queue.next_wake_ms()


class Scripts:
    """The real scripts on a server, with a set clock.

    Args:
        client: Its database gets keys of the queue ``vtrr-simulation``, and loses those of an
            earlier simulation.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._engine = Engine(client, QUEUE_NAME, lease_seconds=LEASE_MS / 1000, socket_timeout=60)
        self._engine.client.clock_key = CLOCK_KEY
        for key in client.scan_iter(match=self._engine.keys.prefix + "*", count=1000):
            client.unlink(key)
        self._wake: int | None = None
        self._now = -1
        self._ended: list[Call] = []

    def put(self, partition: str, item_ids: Sequence[str], now_ms: int) -> None:
        """Enqueue items."""
        self._set(now_ms)
        self._engine.enqueue(partition, [NewItem(item_id, b"") for item_id in item_ids])

    def take(self, now_ms: int) -> Taken | None:
        """Lease the next item, and finish those that have ended with the same round trip."""
        self._set(now_ms)
        call, read = self._engine.lease_call(self._engine.new_tokens(1), holder="simulation")
        leased = read(self._engine.client.call_many([*self._ended, call])[-1])
        self._ended.clear()
        leases, self._wake = leased.items, leased.wake.next_wake_ms
        return (leases[0].item_id, leases[0].token, leases[0].partition) if leases else None

    def end(self, taken: Taken, now_ms: int) -> None:
        """Ack an item, with the next lease."""
        self._set(now_ms)
        self._ended.append(self._engine.ack_call(taken[0], taken[1])[0])

    def rule(self, partition: str, settings: dict[str, Any], now_ms: int) -> None:
        """Change a policy."""
        self._set(now_ms)
        self._engine.set_policy(partition, **settings)

    def wake_ms(self) -> int | None:
        """When to look again though nothing has happened."""
        return self._wake

    def close(self) -> None:
        """Remove the keys and the connections."""
        for key in self._client.scan_iter(match=self._engine.keys.prefix + "*", count=1000):
            self._client.unlink(key)
        self._client.delete(CLOCK_KEY)
        self._engine.client.close()

    def _set(self, now_ms: int) -> None:
        if now_ms != self._now:
            self._client.set(CLOCK_KEY, now_ms)
            self._now = now_ms
