"""Simulates a pool of workers in front of a queue, with plain first in, first out as control.

Time is simulated, so hours of work take seconds. The order is that of the reference scheduler, or
of the real scripts on a server (``--redis``), whose clock is then a key.

``python -m vtrr_queue.simulate --help``; docs/fairness.md shows what comes out.
"""

from vtrr_queue.simulate.orders import Fair, Fifo, Order, Scripts
from vtrr_queue.simulate.pool import Change, Run, Tenant, simulate, zipf_tenants
from vtrr_queue.simulate.report import jain, percentile, table

__all__ = [
    "Change", "Fair", "Fifo", "Order", "Run", "Scripts", "Tenant", "jain", "percentile",
    "simulate", "table", "zipf_tenants",
]  # fmt: skip
