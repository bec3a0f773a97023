"""Points a queue to another server for the length of a test."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vtrr_queue.async_client import AsyncClients
from vtrr_queue.client import ScriptClient
from vtrr_queue.dead import DeadLetters
from vtrr_queue.model import TriggerBudget

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from vtrr_queue.celery.queue import VTRRQueue


@contextmanager
def local_queue(queue: VTRRQueue, client: redis.Redis) -> Iterator[VTRRQueue]:
    """Let a queue of the app work on another server, without triggers: the broker is not used.

    What holds the queue itself (its task, its inspector, its dead letters) follows.

    Args:
        queue: The app's queue.
        client: A client of that server; its settings are cloned.
    """
    engine = queue.engine
    before = (engine.client, engine.async_clients, engine._declared)  # noqa: SLF001 - our own
    budget, dead, given = queue.budget, queue.dead, queue._given  # noqa: SLF001 - our own
    engine.client = ScriptClient(client, engine.keys, engine.client.socket_timeout)
    engine.async_clients = AsyncClients(engine.client, engine.client.place)
    engine._declared = False  # noqa: SLF001 - our own
    queue.budget, queue._given = TriggerBudget(0, budget.timeout_ms), {}  # noqa: SLF001 - our own
    queue.dead = DeadLetters(engine, queue.budget, queue.send_triggers)
    queue.tells_workers = False
    try:
        yield queue
    finally:
        engine.client.close()
        engine.client, engine.async_clients, engine._declared = before  # noqa: SLF001 - our own
        queue.tells_workers = True
        queue.budget, queue.dead, queue._given = budget, dead, given  # noqa: SLF001 - our own
