"""Lives whose steps are sent many at a time, so that the server works without a pause.

Called one by one, a script finds the processor's caches filled by whoever worked meanwhile; sent
together it finds its own. A busy server is nearer to the second, an idle one to the first.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from benchmarks.eager import ACK, ENQUEUE, LEASE
from benchmarks.servercost import BODY, ID, typical_usec
from vtrr_queue.model import NewItem

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from benchmarks.eager import EagerQueue
    from benchmarks.servercost import Ours

BATCH = 300


class OurLives:
    """Batches of steps of our queue.

    Args:
        engine: The queue, filled.
        partitions: Partitions that items come for by turns.
    """

    def __init__(self, engine: Ours, partitions: int) -> None:
        self._engine, self._partitions, self._serial = engine, partitions, 10**9
        self._held: list[Any] = []

    def enqueue(self) -> None:
        """Enqueue items, a call each."""
        running, calls = [], []
        for _ in range(BATCH):
            self._serial += 1
            item = NewItem(ID.format(self._serial), BODY)
            steps = self._engine.enqueuing(f"p{self._serial % self._partitions}", [item])
            calls += next(steps).calls
            running.append(steps)
        for steps, reply in zip(running, self._engine.client.call_many(calls), strict=True):
            try:
                steps.send([reply])
            except StopIteration:
                continue
            raise RuntimeError("an enqueue of one item took more than a call")

    def lease(self) -> None:
        """Lease items, a call each."""
        asked = [
            self._engine.lease_call(self._engine.new_tokens(1), holder="") for _ in range(BATCH)
        ]
        replies = self._engine.client.call_many([call for call, _ in asked])
        for (_, read), reply in zip(asked, replies, strict=True):
            self._held += read(reply).items

    def ack(self) -> None:
        """Finish what is leased, a call each."""
        calls = [self._engine.ack_call(lease.item_id, lease.token)[0] for lease in self._held]
        self._engine.client.call_many(calls)
        self._held.clear()


class EagerLives:
    """Batches of steps of the eager queue.

    Args:
        client: Its server.
        queue: The queue, filled.
        partitions: Partitions that items come for by turns.
    """

    def __init__(self, client: redis.Redis, queue: EagerQueue, partitions: int) -> None:
        self._client, self._queue = client, queue
        self._partitions, self._serial = partitions, 10**9
        self._held: list[tuple[bytes, str]] = []

    def enqueue(self) -> None:
        """Enqueue items, a call each."""
        first = self._serial
        self._serial += BATCH
        self._run(ENQUEUE, [
            (f"p{n % self._partitions}", ID.format(n), 1, BODY) for n in range(first, self._serial)
        ])  # fmt: skip

    def lease(self) -> None:
        """Lease items, a call each."""
        tokens = [secrets.token_hex(16) for _ in range(BATCH)]
        replies = self._run(LEASE, [(token, 3_900_000) for token in tokens])
        self._held += [(reply[0], token) for reply, token in zip(replies, tokens, strict=True)]

    def ack(self) -> None:
        """Finish what is leased, a call each."""
        self._run(ACK, self._held)
        self._held.clear()

    def _run(self, script: str, calls: list[Any]) -> list[Any]:
        pipe = self._client.pipeline(transaction=False)
        for arguments in calls:
            pipe.evalsha(*self._queue.command(script), *arguments)
        return list(pipe.execute())


def life(client: redis.Redis, lives: OurLives | EagerLives) -> float:
    """Server microseconds of the median enqueue, lease and ack.

    Args:
        client: Server to ask.
        lives: What to let live, a batch of each step.
    """
    steps: tuple[Callable[[], None], ...] = (lives.enqueue, lives.lease, lives.ack)
    used = 0.0
    for step in steps:
        client.config_resetstat()
        step()
        used += typical_usec(client, "evalsha")
    return used
