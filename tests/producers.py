"""A producer that goes on while servers die."""

import contextlib
import threading
from collections.abc import Callable

from vtrr_queue import VTRRError


class Producer(threading.Thread):
    """Enqueues one item after the other; those whose call returned are in `acknowledged`.

    Args:
        enqueue: Gets the id of an item to enqueue.
    """

    def __init__(self, enqueue: Callable[[str], object]) -> None:
        super().__init__()
        self.enqueue = enqueue
        self.acknowledged: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        """Go on until the end."""
        number = 0
        while not self.over.is_set():
            item_id, number = f"i{number}", number + 1
            with contextlib.suppress(VTRRError):
                self.enqueue(item_id)
                self.acknowledged.append(item_id)

    def end(self) -> None:
        """Let the last call return."""
        self.over.set()
        self.join()
