"""Dead letters: what failed for good, kept with its reason until somebody decides.

Invariant: a letter leaves only by a call of this class, by an enqueue of the same id, or because
of the bounds the queue was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtrr_queue.engine import NO_TRIGGERS
from vtrr_queue.errors import ArgumentError, ArgumentTypeError
from vtrr_queue.payload import Payload, decode
from vtrr_queue.records import pack_id, read_dead_letter, unpack_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtrr_queue.engine import Engine
    from vtrr_queue.model import DeadLetter, TriggerBudget, Wake

PAGE = 100
"""Letters read at once."""


class DeadLetters:
    """The dead letters of one queue.

    Args:
        engine: The queue.
        budget: How many triggers may stand.
        send: Publishes the triggers that requeued items need.
    """

    def __init__(
        self,
        engine: Engine,
        budget: TriggerBudget = NO_TRIGGERS,
        send: Callable[[Wake], None] | None = None,
    ) -> None:
        self._engine, self._budget, self._send = engine, budget, send
        self._letters, self._index = engine.keys["dead"], engine.keys["dead_index"]

    def __len__(self) -> int:
        """How many there are."""
        (count,) = self._engine.client.read(("HLEN", self._letters))
        return int(count)

    def __bool__(self) -> bool:
        """A view is there also when it is empty."""
        return True

    def latest(self, limit: int = 100, partition: str | None = None) -> list[DeadLetter]:
        """The latest letters, the latest first.

        Args:
            limit: Most letters to return.
            partition: Only letters of this partition.
        """
        found: list[DeadLetter] = []
        at = 0
        while len(found) < limit:
            (item_ids,) = self._engine.client.read(("ZREVRANGE", self._index, at, at + PAGE - 1))
            letters = self._read(item_ids)
            found += [each for each in letters if partition in {None, each.partition}]
            at += PAGE
            if len(item_ids) < PAGE:
                break
        return found[:limit]

    def get(self, item_id: str) -> DeadLetter | None:
        """One letter, None when there is none of this id."""
        return next(iter(self._read([pack_id(item_id)])), None)

    def payload(self, item_id: str) -> Payload:
        """The call inside a letter; ``payload(...).call()`` gives its arguments.

        Raises:
            KeyError: There is no such letter.
            UndecodablePayload: Its bytes have another layout; ``get(item_id).body`` has them.
        """
        letter = self.get(item_id)
        if letter is None:
            raise KeyError(item_id)
        return decode(letter.body)

    def requeue(self, *item_ids: str) -> list[str]:
        """Run letters again, with no timeout and no retry counted.

        Args:
            *item_ids: Their ids.

        Returns:
            The ids that were dead letters and wait now.
        """
        return self._requeue([_named("item_id", item_id) for item_id in item_ids], "")

    def requeue_partition(self, partition: str) -> int:
        """Run every letter of a partition again, the oldest first.

        Returns:
            How many there were.
        """
        _named("partition", partition)
        return sum(len(self._requeue(ids, partition)) for ids in self._until_now())

    def requeue_all(self) -> int:
        """Run every letter again, the oldest first.

        Returns:
            How many there were.
        """
        return sum(len(self._requeue(ids, "")) for ids in self._until_now())

    def drop(self, *item_ids: str) -> list[str]:
        """Forget letters.

        Args:
            *item_ids: Their ids.

        Returns:
            The ids that were dead letters.
        """
        return self._engine.drop([_named("item_id", item_id) for item_id in item_ids])

    def drop_partition(self, partition: str) -> int:
        """Forget every letter of a partition.

        Returns:
            How many there were.
        """
        _named("partition", partition)
        return sum(len(self._engine.drop(ids, partition=partition)) for ids in self._until_now())

    def drop_all(self) -> int:
        """Forget every letter.

        Returns:
            How many there were.
        """
        return sum(len(self._engine.drop(ids)) for ids in self._until_now())

    def _requeue(self, item_ids: list[str], partition: str) -> list[str]:
        done, wakes = self._engine.requeue(item_ids, partition=partition, budget=self._budget)
        for wake in wakes:
            if self._send is not None:
                self._send(wake)
        return done

    def _until_now(self) -> list[list[str]]:
        """Ids of letters that are dead now, the oldest first, in pages.

        They are read before anything is done: a requeued item may die again at once.
        """
        read = self._engine.client.read
        (now,) = read(("TIME",))
        until = int(now[0]) * 1000 + int(now[1]) // 1000
        pages: list[list[str]] = []
        while not pages or pages[-1]:
            at = PAGE * len(pages)
            (ids,) = read(("ZRANGEBYSCORE", self._index, "-inf", until, "LIMIT", at, PAGE))
            pages.append([unpack_id(item_id) for item_id in ids])
        return pages[:-1]

    def _read(self, item_ids: Sequence[bytes]) -> list[DeadLetter]:
        if not item_ids:
            return []
        (texts,) = self._engine.client.read(("HMGET", self._letters, *item_ids))
        letters = zip(item_ids, texts, strict=True)
        return [read_dead_letter(item_id, text) for item_id, text in letters if text]


def _named(argument: str, text: object) -> str:
    """A name that was given: an empty one would mean any."""
    if not isinstance(text, str):
        raise ArgumentTypeError(argument, text, "a string")
    if not text:
        raise ArgumentError(argument, text, "a non-empty string")
    return text
