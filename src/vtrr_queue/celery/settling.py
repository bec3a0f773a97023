"""Tells Redis how a run ended.

Invariant: what a fate means for an item stands here and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtrr_queue.celery.request import Fate

if TYPE_CHECKING:
    from vtrr_queue.celery.holding import Ended
    from vtrr_queue.celery.queue import VTRRQueue


def carry_out(vtrr: VTRRQueue, end: Ended) -> bool:
    """Finish, put back or bury an item as its fate says.

    Args:
        vtrr: Its queue.
        end: How its run ended.

    Returns:
        Whether its lease was still held; if not, nothing was changed.

    Raises:
        VTRRError: Redis did not answer, or refused.
    """
    lease = end.lease
    if end.fate in {Fate.REJECTED, Fate.FAILED}:
        return vtrr.bury(lease, end.why, end.exception, end.traceback)
    if end.fate is Fate.RETRY:  # if still held, somebody raised `Retry` who asked for none
        vtrr.bury(lease, f"it raised {end.why} and stored no retry of its own")
        return True
    if end.fate in {Fate.ACK, Fate.CANCELLED}:
        return vtrr.ack(lease.item_id, lease.token)
    settled = vtrr.engine.release(
        lease.item_id, lease.token, timed_out=end.fate is Fate.TIMED_OUT, why=end.why,
        budget=vtrr.budget,
    )  # fmt: skip
    if settled.dead:
        vtrr.died(lease.item_id, f"max_timeouts: {end.why}")
    vtrr.send_triggers(settled.wake)
    return settled.held
