"""One method a script: the only writer of Redis, usable without Celery.

Invariant: every method may be repeated after a lost reply without effect, because ids, tokens
and call numbers are made here and not by the server.
"""

from __future__ import annotations

from vtrr_queue.engine.base import NO_TRIGGERS
from vtrr_queue.engine.counting import Counting
from vtrr_queue.engine.letters import Burying
from vtrr_queue.engine.producing import Producing
from vtrr_queue.engine.serving import MOST_LEASES, RECLAIM_BATCH, Serving

__all__ = ["MOST_LEASES", "NO_TRIGGERS", "RECLAIM_BATCH", "Engine"]


class Engine(Producing, Serving, Burying, Counting):
    """The fair queue of one name.

    Args:
        redis_client: A ``redis.Redis``; its settings are cloned, it is not used itself.
        name: Queue name, the namespace of all keys.
        lease_seconds: How long a lease lasts, server clock, 1 ms steps.
        reclaim_position: Where an expired item goes in its partition.
        socket_timeout: Bound on connecting and on one reply, s.
        wake: Publish a hint when something becomes servable (direct dispatch); a hint that
            something will become due is always published.
        limits: The queue's defaults and limits, see :func:`vtrr_queue.policy.check_limits`; stored
            before the first enqueue or lease. None leaves alone what is stored.
        dead_letters: When an item becomes a dead letter, and how many are kept for how long.
    """
