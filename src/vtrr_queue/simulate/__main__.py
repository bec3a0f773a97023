"""``python -m vtrr_queue.simulate``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import redis

from vtrr_queue.simulate.orders import Fair, Fifo, Order, Scripts
from vtrr_queue.simulate.pool import Change, simulate, zipf_tenants
from vtrr_queue.simulate.report import table

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate tenants of Zipf's law, first in first out and fair, and print both."""
    parser = argparse.ArgumentParser(prog="python -m vtrr_queue.simulate", description=main.__doc__)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--tenants", type=int, default=100)
    parser.add_argument("--load", type=float, default=1.5, help="demand over capacity")
    parser.add_argument("--item-seconds", type=float, default=1.0, help="mean run time of an item")
    parser.add_argument("--seconds", type=float, default=3600.0, help="simulated time")
    parser.add_argument("--charge", choices=("weight", "runtime"), default="runtime")
    parser.add_argument("--cap", type=int, help="cap of every tenant")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--redis", metavar="URL", help="use the real scripts on this server")
    given = parser.parse_args(argv)
    tenants = zipf_tenants(given.tenants, given.load, given.item_seconds, given.workers)
    changes: list[Change] = []
    if given.cap:
        changes.append((0.0, "", {"cap": given.cap}))
    orders: list[tuple[str, Order]] = [("first in, first out", Fifo())]
    fair: Order = Fair()
    if given.redis:
        fair = Scripts(redis.Redis.from_url(given.redis))
    orders.append((f"fair, charge={given.charge!r}", fair))
    for title, order in orders:
        run = simulate(order, tenants, workers=given.workers, seconds=given.seconds,
                       charge=given.charge, seed=given.seed, changes=changes)  # fmt: skip
        sys.stdout.write(f"{title}\n{table(run)}\n\n")
    if isinstance(fair, Scripts):
        fair.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
