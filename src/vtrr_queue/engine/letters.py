"""Dead letters: become items again, or are forgotten."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from vtrr_queue.engine.base import NO_TRIGGERS, EngineBase
from vtrr_queue.records import pack_id, read_wake, trigger_arguments, unpack_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtrr_queue.model import TriggerBudget, Wake

LETTERS_AT_ONCE = 100
"""Most letters one script handles: each may hold a large body."""


class Burying(EngineBase):
    """What people call who look after dead letters; see :mod:`vtrr_queue.dead`."""

    def requeue(
        self,
        item_ids: Sequence[str],
        *,
        partition: str = "",
        budget: TriggerBudget = NO_TRIGGERS,
    ) -> tuple[list[str], list[Wake]]:
        """Make dead letters items again, with no timeout and no retry counted.

        Args:
            item_ids: Their ids; unknown ones are passed over.
            partition: Take only letters of this partition; any when empty.
            budget: How many triggers may stand.

        Returns:
            The ids that were requeued, in the given order, and what asks for triggers.

        Source:
            ``scripts/requeue.lua``.
        """
        done: list[str] = []
        wakes: list[Wake] = []
        for chunk in _chunks(item_ids):
            triggers = trigger_arguments(budget)
            call = _arguments(partition, triggers[0], self._ready_channel, *map(pack_id, chunk))
            reply = self._check(self.client.call("requeue", secrets.token_hex(8), call))
            done += [unpack_id(item_id) for item_id in reply[6:]]
            wakes.append(read_wake(reply, triggers[1]))
        return done, wakes

    def drop(self, item_ids: Sequence[str], *, partition: str = "") -> list[str]:
        """Forget dead letters.

        Args:
            item_ids: Their ids; unknown ones are passed over.
            partition: Take only letters of this partition; any when empty.

        Returns:
            The ids that were dropped.

        Source:
            ``scripts/drop.lua``.
        """
        done: list[str] = []
        for chunk in _chunks(item_ids):
            call = _arguments(partition, *map(pack_id, chunk))
            reply = self._check(self.client.call("drop", secrets.token_hex(8), call))
            done += [unpack_id(item_id) for item_id in reply[6:]]
        return done


def _arguments(*rest: object) -> Callable[[int], Sequence[object]]:
    return lambda attempt: (attempt, *rest)


def _chunks(item_ids: Sequence[str]) -> list[Sequence[str]]:
    starts = range(0, len(item_ids), LETTERS_AT_ONCE)
    return [item_ids[at : at + LETTERS_AT_ONCE] for at in starts]
