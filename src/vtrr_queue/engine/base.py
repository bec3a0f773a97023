"""What all calls of the engine share: connection, settings, the check of a reply."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vtrr_queue.async_client import AsyncClients
from vtrr_queue.client import ScriptClient
from vtrr_queue.cluster import is_cluster
from vtrr_queue.engine.producers import Producers
from vtrr_queue.errors import ArgumentError, SchemaMismatch
from vtrr_queue.keys import SCHEMA, QueueKeys
from vtrr_queue.model import DeadLetterRules, ReclaimPosition, Settled, TriggerBudget
from vtrr_queue.records import read_wake

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtrr_queue.talk import Reply

NO_TRIGGERS = TriggerBudget()


class EngineBase:
    """Connection and settings of one queue; :class:`vtrr_queue.engine.Engine` describes them."""

    def __init__(
        self,
        redis_client: object,
        name: str,
        *,
        lease_seconds: float = 3900,
        reclaim_position: ReclaimPosition = "back",
        socket_timeout: float = 2.0,
        wake: bool = False,
        dead_letters: DeadLetterRules = DeadLetterRules(),  # noqa: B008 - it is immutable
        limits: Mapping[str, object] | None = None,
    ) -> None:
        self.keys = QueueKeys(name, hash_tag=is_cluster(redis_client))
        self.client = ScriptClient(redis_client, self.keys, socket_timeout)
        self.async_clients = AsyncClients(self.client, self.client.place)
        if not 0 < lease_seconds < math.inf:
            raise ArgumentError("lease_seconds", lease_seconds, "a finite number above 0")
        self.lease_ms = max(1, round(lease_seconds * 1000))
        self.reclaim_position = reclaim_position
        self._bounds = dead_letters.text
        self._later_channel = self.keys.wake_channel
        self._ready_channel = self._later_channel if wake else ""
        self._producers = Producers()
        self._confirms = False
        self.limits = dict(limits or {})
        self._declared = False

    def _settled(self, reply: Reply, status: str, prefix: str) -> Settled:
        self._check(reply)
        dead = reply[0] == "buried"
        return Settled(dead or reply[0] == status, read_wake(reply, prefix), dead)

    def _check(self, reply: Reply) -> Reply:
        if reply[0] == "schema":
            raise SchemaMismatch(reply[2].decode(), SCHEMA, self.keys.prefix)
        return reply
