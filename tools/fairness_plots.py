"""Write the plots of docs/fairness.md; ``python tools/fairness_plots.py``, seconds of work."""

from __future__ import annotations

from pathlib import Path

from vtrr_queue.simulate import Fair, Fifo, Tenant, simulate, zipf_tenants
from vtrr_queue.simulate.plot import shares_chart, waits_chart

TARGET = Path(__file__).parents[1] / "docs"


def main() -> None:
    """Simulate and write."""
    tenants = zipf_tenants(100, 1.5, 1.0, 16)
    runs = {
        "first in, first out": simulate(Fifo(), tenants, seconds=1800),
        "vtrr-queue": simulate(Fair(), tenants, seconds=1800, charge="runtime"),
    }
    title = "Wait, 95th percentile: 100 tenants ask for 1.5 times what 16 workers can do"
    (TARGET / "fairness-waits.svg").write_text(waits_chart(title, runs))

    pair = [Tenant("long", 1000.0, backlog=900), Tenant("short", 1.0, backlog=90_000)]
    runs = {f"charge={charge!r}": simulate(Fair(), pair, seconds=8000, charge=charge)
            for charge in ("weight", "runtime")}  # fmt: skip
    title = "Worker time of a tenant with items of 1 s beside one with items of 1000 s"
    (TARGET / "fairness-time.svg").write_text(shares_chart(title, runs, "short"))

    big = Tenant("big", 600.0, backlog=9000, exponential=True)
    small = Tenant("small", 1.0, rate=0.01)
    runs = {name: simulate(Fair(), [big, small], seconds=80_000, charge="runtime",
                           changes=[(0.0, "big", {"cap": cap})])
            for name, cap in (("no cap", None), ("a cap of 15", 15))}  # fmt: skip
    title = "Wait, 99th percentile: 16 workers, items of 600 s and rare ones of 1 s"
    (TARGET / "fairness-slot.svg").write_text(waits_chart(title, runs, 99))


if __name__ == "__main__":
    main()
