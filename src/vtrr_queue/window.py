"""What partitions were charged in the last minutes, read again and again at little cost.

Invariant: a minute that is over does not change any more, so it is read once.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from vtrr_queue.bulk import read_texts
from vtrr_queue.model import SLOT_MS, SLOTS
from vtrr_queue.wire import packed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtrr_queue.client import ScriptClient
    from vtrr_queue.keys import QueueKeys


class Window:
    """The charged service of a queue whose workers keep statistics.

    Args:
        client: Reads.
        keys: Names of the queue's keys.
    """

    def __init__(self, client: ScriptClient, keys: QueueKeys) -> None:
        self._client, self._keys = client, keys
        self._over: dict[int, list[bytes]] = {}

    def service(self, now_ms: int) -> Mapping[bytes, float]:
        """Partition -> charge in the last five to six minutes; empty without statistics.

        Args:
            now_ms: Server clock.
        """
        now = now_ms // SLOT_MS
        over = {slot: self._over.get(slot) or self._read(slot) for slot in range(now - SLOTS, now)}
        self._over = over
        found = defaultdict[bytes, float](float)
        for pairs in (*over.values(), self._read(now)):
            for name, amount in zip(pairs[::2], pairs[1::2], strict=True):
                found[name] += float(amount)
        return found

    def _read(self, slot: int) -> list[bytes]:
        return self._client.bulk(packed(("HGETALL", self._keys.service(slot))), read_texts)
