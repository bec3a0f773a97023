"""What an app may ask a task about its items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtrr_queue.celery.entries import ID_MAX, check_text
from vtrr_queue.forecast import Forecast, Position

if TYPE_CHECKING:
    from vtrr_queue.celery.queue import VTRRQueue


class Asking:
    """Questions of :class:`~vtrr_queue.VTRRTask`."""

    _vtrr: VTRRQueue

    def position(self, item_id: str) -> Position | None:
        """Where an item stands and about how long it will wait.

        Args:
            item_id: Its id.

        Returns:
            A :class:`~vtrr_queue.forecast.Position`; None when no item of this id waits or runs.

        Raises:
            ArgumentTypeError: The id is no string.
            ArgumentError: It is empty or too long.
            Unavailable: Redis did not answer.
        """
        return Forecast(self._vtrr.engine).position(check_text("item_id", item_id, ID_MAX))
