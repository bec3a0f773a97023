"""What a fair task's function finds in ``self.request``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery import current_app
from celery.app.task import Context

if TYPE_CHECKING:
    from vtrr_queue.celery.queue import VTRRQueue


class ItemContext(Context):
    """``self.request`` of a fair task; a call without an item has an item's fields as well.

    Attributes:
        vtrr_timeouts: Earlier runs of the item that were lost.
        vtrr_partition: Its partition, None without an item. An eager call has its own, if it names
            one.
        vtrr_item_id: Its id, None without an item. An eager call has its own.
        vtrr_token: Token of this run's lease, None without an item.
    """

    vtrr_timeouts = 0
    vtrr_partition: str | None = None
    vtrr_item_id: str | None = None
    vtrr_token: str | None = None

    def vtrr_fill_in(self) -> None:
        """Give an eager call what it has of an item's fields."""
        if self.is_eager and self.vtrr_item_id is None:
            self.vtrr_item_id = self.id
            self.vtrr_partition = (self.headers or {}).get("vtrr_partition")

    def vtrr_lease_held(self) -> bool:
        """Ask the server whether this run still holds its lease; one call.

        Returns:
            False when the lease has ended and the item waits or runs elsewhere; True as well for
            a call without an item, which nobody can take away.

        Raises:
            Unavailable: Redis did not answer.
            Refused: It did not allow the question.
        """
        return self.vtrr_token is None or self._vtrr().engine.held(self.vtrr_token)

    def vtrr_cancelled(self) -> bool:
        """Ask the server whether this item was cancelled while it runs; one call.

        Returns:
            True when :meth:`VTRRQueue.cancel` has marked it: what the function leaves undone will
            not be done by another run. False for a call without an item.

        Raises:
            Unavailable: Redis did not answer.
            Refused: It did not allow the question.
        """
        if self.vtrr_token is None or self.vtrr_item_id is None:
            return False
        return self._vtrr().engine.is_cancelled(self.vtrr_item_id)

    def _vtrr(self) -> VTRRQueue:
        vtrr: VTRRQueue = current_app.tasks[self.task].vtrr_queue
        return vtrr
