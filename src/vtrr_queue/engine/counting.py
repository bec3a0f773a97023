"""Adding up what workers have counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtrr_queue.engine.base import EngineBase
from vtrr_queue.talk import ATTEMPTS

if TYPE_CHECKING:
    from vtrr_queue.stats import Batch, Tally
    from vtrr_queue.talk import Call


class Counting(EngineBase):
    """What workers call once a second."""

    def count(self, tally: Tally) -> None:
        """Add what a worker has counted to the queue's statistics, once.

        Args:
            tally: Its counts; what can't be added now is kept there for the next time.

        Raises:
            Unavailable: Redis did not answer.
            SchemaMismatch: The keys belong to another layout.

        Source:
            ``scripts/count.lua``.
        """
        # Kept for longer than a worker tries: an unanswered batch comes again under its name.
        remember_ms = int((ATTEMPTS + 1) * self.client.socket_timeout * 1000) + 3_600_000
        for batch in tally.batches():
            self._check(self.client.call(*_call(batch, remember_ms)))
            tally.added(batch)


def _call(batch: Batch, remember_ms: int) -> Call:
    arguments = batch.arguments(remember_ms)
    return "count", batch.echo, lambda _: arguments
