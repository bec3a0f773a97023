"""Storing items: enqueue, in chunks that do not block the server."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from vtrr_queue.engine.base import NO_TRIGGERS
from vtrr_queue.engine.ruling import Ruling
from vtrr_queue.errors import (
    ArgumentError,
    BacklogFull,
    DuplicateItem,
    EnqueueInterrupted,
    NotDurable,
    Refused,
    Unavailable,
)
from vtrr_queue.model import Durability, Enqueued, NewItem, OnDuplicate, TriggerBudget
from vtrr_queue.records import (
    CHUNK_ITEMS,
    chunks_of,
    format_mark,
    pack_id,
    read_wake,
    trigger_arguments,
    unpack_id,
)
from vtrr_queue.talk import ATTEMPTS, Reads, Unconfirmed, calling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtrr_queue.talk import Reply, Steps


class Producing(Ruling):
    """What producers call."""

    def enqueue(
        self,
        partition: str,
        items: Sequence[NewItem],
        *,
        on_duplicate: OnDuplicate = "skip",
        budget: TriggerBudget = NO_TRIGGERS,
        durability: Durability | None = None,
    ) -> Enqueued:
        """Store items of one partition, oldest first.

        Args:
            partition: Whose items they are.
            items: In the order in which they are to run.
            on_duplicate: ``"skip"`` leaves known ids alone, ``"error"`` refuses the whole call.
            budget: How many triggers may stand.
            durability: Return only when this is confirmed.

        Returns:
            All ids, those that were known already, and the triggers to publish.

        Raises:
            BacklogFull: The partition's ``max_backlog`` has no room for all of them.
            DuplicateItem: ``on_duplicate="error"`` and an id is known or comes twice.
            EnqueueInterrupted: Redis failed after some chunks were stored.
            NotDurable: All is stored, but ``durability`` was not confirmed in time.
            Refused: The server can't give that durability (nothing was stored), or has no memory.
            Unavailable: Redis did not answer; enqueuing the same ids again is safe.
            SchemaMismatch: The keys belong to another layout.

        Source:
            ``scripts/enqueue.lua``.
        """
        return self.client.run(
            self.enqueuing(
                partition, items, on_duplicate=on_duplicate, budget=budget, durability=durability
            )
        )

    async def aenqueue(
        self,
        partition: str,
        items: Sequence[NewItem],
        *,
        on_duplicate: OnDuplicate = "skip",
        budget: TriggerBudget = NO_TRIGGERS,
        durability: Durability | None = None,
    ) -> Enqueued:
        """As :meth:`enqueue`, for coroutines; it goes on when its caller is cancelled.

        Raises:
            RuntimeError: No event loop runs in this thread.
        """
        steps = self.enqueuing(
            partition, items, on_duplicate=on_duplicate, budget=budget, durability=durability
        )
        return await self.async_clients.here().run(steps)

    def enqueuing(
        self,
        partition: str,
        items: Sequence[NewItem],
        *,
        on_duplicate: OnDuplicate = "skip",
        budget: TriggerBudget = NO_TRIGGERS,
        durability: Durability | None = None,
    ) -> Steps[Enqueued]:
        """The steps of :meth:`enqueue`."""
        yield from self.declaring()
        chunks = chunks_of(items)
        ids = [item.item_id for item in items]
        if on_duplicate == "error":
            yield from self._refuse_known(ids, ask=len(chunks) > 1)
        if durability is not None:
            yield from self._check_durability(durability.level)
        duplicates: list[str] = []
        unconfirmed = ""
        reply: Reply = ["enqueued", b"", 0, 0, 0, b""]
        done = 0
        triggers = trigger_arguments(budget)
        fresh = len(set(ids))
        for chunk in chunks:
            last = done + len(chunk) == len(items)
            sends = triggers if last else trigger_arguments(NO_TRIGGERS)
            wait = None if unconfirmed else _chunk_durability(durability, last=last)
            try:
                counts = (sends[0], len(items), 0 if done else fresh)
                send = partial(self._enqueue_chunk, partition, chunk, on_duplicate, wait=wait)
                reply, cause = yield from self._with_room(send, counts, ids[done + len(chunk) :])
            except (Unavailable, Refused) as exc:
                if done:
                    raise EnqueueInterrupted(ids[:done], ids[done:]) from exc
                raise
            unconfirmed = unconfirmed or cause
            duplicates += [unpack_id(item_id) for item_id in reply[6:]]
            done += len(chunk)
        enqueued = Enqueued(tuple(ids), tuple(duplicates), read_wake(reply, triggers[1]))
        if durability is not None and unconfirmed:
            raise NotDurable(ids, durability.level, unconfirmed, enqueued)
        return enqueued

    def _with_room(
        self, send: Callable[..., Steps[tuple[Reply, str]]], counts: tuple[str, int, int],
        later: Sequence[str],
    ) -> Steps[tuple[Reply, str]]:  # fmt: skip
        """Send a chunk; refused for want of room, again without what is known of later ones."""
        try:
            return (yield from send(counts))
        except BacklogFull:
            known = set((yield from self._knowing(later)))
            if not known:
                raise
        return (yield from send((*counts[:2], counts[2] - len(known))))

    def known(self, item_ids: Sequence[str]) -> list[str]:
        """Which of these ids are waiting or running, in the given order."""
        return self.client.run(self._knowing(item_ids))

    def _knowing(self, item_ids: Sequence[str]) -> Steps[list[str]]:
        asked = [("HEXISTS", self.keys["task"], pack_id(item_id)) for item_id in item_ids]
        hits: list[Any] = []
        for at in range(0, len(asked), CHUNK_ITEMS):
            hits += yield Reads(asked[at : at + CHUNK_ITEMS])
        return [item_id for item_id, hit in zip(item_ids, hits, strict=True) if hit]

    def _enqueue_chunk(
        self,
        partition: str,
        chunk: Sequence[NewItem],
        on_duplicate: OnDuplicate,
        counts: tuple[str, int, int],
        wait: Durability | None,
    ) -> Steps[tuple[Reply, str]]:
        """Store one chunk; its reply, and why it is not confirmed ("" when it is)."""
        wait_seconds = wait.timeout_seconds if wait else 0.0
        remember = (ATTEMPTS + 1) * self.client.socket_timeout + wait_seconds + 2
        remember_ms = int(remember * 1000)
        rest: list[Any] = [
            remember_ms,
            partition,
            on_duplicate,
            *counts,
            self._later_channel,
            int(bool(self._ready_channel)),
        ]
        for item in chunk:
            rest += [pack_id(item.item_id), format_mark(item), item.body]
        with self._producers.take() as (producer, number):
            echo = f"{producer}:{number}"
            unconfirmed = ""
            try:
                arguments = (producer, number, *rest)
                reply = yield from calling("enqueue", echo, lambda _: arguments, wait)
            except Unconfirmed as exc:
                reply, unconfirmed = exc.replies[0], str(exc)
        if self._check(reply)[0] == "duplicate":
            raise DuplicateItem([unpack_id(item_id) for item_id in reply[6:]])
        if reply[0] == "full":
            raise BacklogFull(partition, int(reply[6]), int(reply[7]), counts[1])
        if reply[0] == "weight":
            raise ArgumentError(f"weight of {unpack_id(reply[6])!r}", reply[7], "0.001 to 1e9")
        return reply, unconfirmed

    def _refuse_known(self, ids: Sequence[str], *, ask: bool) -> Steps[None]:
        twice = [item_id for item_id, times in Counter(ids).items() if times > 1]
        if twice:
            raise DuplicateItem(twice, "more than once in this call")
        known = (yield from self._knowing(ids)) if ask else ()
        if known:
            raise DuplicateItem(known)

    def _check_durability(self, level: str) -> Steps[None]:
        """Ask the server once whether it can confirm, before anything is stored."""
        if level != "fsync" or self._confirms:
            return
        questions = [("COMMAND", "INFO", "WAITAOF"), ("INFO",)]
        commands, info = yield Reads(questions, takes_refusals=True)
        if isinstance(commands, Exception) or isinstance(info, Exception):
            return  # it may not be asked, or is loading: the wait itself will tell
        if not commands[0]:
            why = "durability='fsync' needs WAITAOF: Redis 7.2 or later, or Valkey"
            raise Refused("enqueue", ValueError(why))
        if b"aof_enabled:0" in info:
            why = "durability='fsync' needs the append-only file: CONFIG SET appendonly yes"
            raise Refused("enqueue", ValueError(why))
        self._confirms = True


def _chunk_durability(durability: Durability | None, *, last: bool) -> Durability | None:
    """What one chunk of a call waits for.

    An fsync covers all that the server wrote before, so the last chunk waits for all. A replica
    may take the primary's place between two chunks: what the last one waits for is then another
    server's, so each chunk waits before the next is sent.
    """
    if durability is None or last or durability.level == "replicated":
        return durability
    return None
