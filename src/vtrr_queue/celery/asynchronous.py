"""Enqueuing from coroutines: the same checks, calls and errors, without blocking the event loop.

Invariant: no rule stands here; what is stored and sent is decided by the code that blocking
callers use.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from vtrr_queue.celery.announcing import announce, tell
from vtrr_queue.celery.entries import (
    PARTITION_MAX,
    check_choice,
    check_durability,
    check_text,
    read_entries,
)
from vtrr_queue.celery.trigger import PUBLISH_WAIT_SECONDS
from vtrr_queue.errors import NotDurable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery import Celery
    from celery.result import AsyncResult

    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.celery.task import VTRRTask
    from vtrr_queue.celery.trigger import Publisher
    from vtrr_queue.engine import Engine
    from vtrr_queue.model import (
        Durability,
        DurabilityLevel,
        Enqueued,
        NewItem,
        OnDuplicate,
        TriggerBudget,
    )
    from vtrr_queue.talk import Steps

ENTRIES_IN_THE_LOOP = 100
"""Most entries that are serialised in the event loop (about 2 ms); more go to a thread."""


def check_where(partition_key: object, on_duplicate: object) -> None:
    """What a call says beside its entries.

    Raises:
        ArgumentError: A value is wrong.
        ArgumentTypeError: A type is wrong.
    """
    check_text("partition_key", partition_key, PARTITION_MAX)
    check_choice("on_duplicate", on_duplicate, ("skip", "error"))


class AsyncProducing:
    """The part of :class:`~vtrr_queue.VTRRQueue` that stores items."""

    app: Celery
    engine: Engine
    budget: TriggerBudget
    _publisher: Publisher

    def _applying_policy(self, partition: str) -> Steps[None]:
        raise NotImplementedError

    def _storing(
        self, partition: str, items: Sequence[NewItem], on_duplicate: OnDuplicate,
        durability: Durability | None,
    ) -> Steps[tuple[Enqueued, NotDurable | None]]:  # fmt: skip
        """Store checked items; what was stored, and the error to raise once triggers are sent."""
        yield from self._applying_policy(partition)
        try:
            enqueued = yield from self.engine.enqueuing(
                partition, items, on_duplicate=on_duplicate, budget=self.budget,
                durability=durability,
            )  # fmt: skip
        except NotDurable as exc:  # they are stored all the same, and will run
            return cast("Enqueued", exc.enqueued), exc
        return enqueued, None

    async def astore(
        self, partition: str, items: Sequence[NewItem], on_duplicate: OnDuplicate = "skip",
        durability: Durability | None = None,
    ) -> Enqueued:  # fmt: skip
        """As ``store``; goes on to the last trigger when its caller is cancelled."""
        client = self.engine.async_clients.here()
        queue: Any = self
        announced, after = announce(queue, items)

        async def store() -> tuple[Enqueued, NotDurable | None]:
            stored = await client.carry_out(
                self._storing(partition, announced, on_duplicate, durability)
            )
            await self._publisher.asend(stored[0].wake.triggers, PUBLISH_WAIT_SECONDS)
            tell(after)
            return stored

        enqueued, late = await client.finish(store())
        if late is not None:
            raise late
        return enqueued

    async def aclose(self) -> None:
        """Close this event loop's connections to Redis, once the calls that were begun are done.

        ``asyncio.run`` and the servers built on it do this as they end. The queue stays usable.
        """
        await self.engine.async_clients.close()


class AsyncTask:
    """The part of :class:`~vtrr_queue.VTRRTask` that is awaited."""

    name: str
    _vtrr: VTRRQueue
    celery_task: Any

    async def aqueue(
        self,
        partition_key: str,
        tasks: Sequence[dict[str, Any]],
        *,
        on_duplicate: OnDuplicate = "skip",
        durability: DurabilityLevel | None = None,
        durability_timeout: float = 2.0,
    ) -> list[str]:
        """As :meth:`~vtrr_queue.VTRRTask.queue`, from a coroutine on asyncio.

        A call that is cancelled after its entries were checked goes on to its end in the
        background: what it sent may have been stored. With ids of your own it can be repeated.

        Args:
            partition_key: Whose turn they use (user, tenant, customer).
            tasks: As there.
            on_duplicate: As there.
            durability: As there.
            durability_timeout: As there, s.

        Returns:
            The item ids, in order.

        Raises:
            VTRRError: The same errors in the same cases.
            RuntimeError: No asyncio event loop runs in this thread.
        """
        wanted = check_durability(durability, durability_timeout)
        vtrr: Any = self._vtrr
        if vtrr.app.conf.task_always_eager:
            return await asyncio.to_thread(
                partial(
                    self._vtrr.enqueue, cast("VTRRTask", self), partition_key, tasks, on_duplicate
                )
            )
        check_where(partition_key, on_duplicate)
        read = partial(read_entries, tasks, self.name, *self.celery_task.encoding())
        is_long = isinstance(tasks, list | tuple) and len(tasks) > ENTRIES_IN_THE_LOOP
        items = await asyncio.to_thread(read) if is_long else read()
        if items:
            await self._vtrr.astore(partition_key, items, on_duplicate, wanted)
        return [item.item_id for item in items]

    async def aapply_async(
        self, args: Any = None, kwargs: Any = None, **options: Any
    ) -> AsyncResult:
        """As :meth:`~vtrr_queue.VTRRTask.apply_async`, from a coroutine on asyncio."""
        task = self.celery_task
        if task.app.conf.task_always_eager:
            eager = partial(task.apply_async, args, kwargs, **options)
            return await asyncio.to_thread(eager)
        call = task.read_call(args, kwargs, **options)
        await self._vtrr.astore(call.partition, [call.item], durability=call.durability)
        return task.AsyncResult(call.item.item_id)
