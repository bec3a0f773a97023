"""Whether all is well, and what would happen: audit, doctor, simulate."""

from __future__ import annotations

from typing import Any

import click

from vtrr_queue.cli.command import FINDINGS, Chosen, Number, command
from vtrr_queue.cli.output import print_json, shown
from vtrr_queue.simulate.orders import Fair, Fifo
from vtrr_queue.simulate.pool import Change, Run, simulate, zipf_tenants
from vtrr_queue.simulate.report import jain, percentile, table


@command("audit")
@click.pass_context
def audit_command(ctx: click.Context, chosen: Chosen) -> None:
    """Check what is stored against the design's invariants.

    A large queue is read in small pieces, several times if need be: what all readings find is
    printed.
    """
    found = {queue.name: queue.inspector.audit(gently=True) for queue in chosen.all}
    if chosen.as_json:
        print_json({"queues": [{"name": name, "violations": each}
                               for name, each in found.items()]})  # fmt: skip
    else:
        for name, violations in found.items():
            for violation in violations:
                click.echo(f"{shown(name)}: {shown(violation)}")
            if not violations:
                click.echo(f"{shown(name)}: no violation")
    ctx.exit(FINDINGS if any(found.values()) else 0)


@command("doctor")
@click.pass_context
def doctor_command(ctx: click.Context, chosen: Chosen) -> None:
    """Name settings of the server, and of the app and its workers, that put a queue at risk."""
    found = {queue.name: queue.inspector.doctor() for queue in chosen.all}
    if chosen.as_json:
        print_json({"queues": [{"name": name, "findings": each}
                               for name, each in found.items()]})  # fmt: skip
    else:
        for name, findings in found.items():
            for each in findings:
                click.echo(f"{shown(name)}: {each.severity} {each.code}: {shown(each.message)}")
                click.echo(f"  it leads to: {shown(each.cost)}\n  mend it: {shown(each.fix)}")
            if not findings:
                click.echo(f"{shown(name)}: all is well")
    bad = any(each.severity != "info" for findings in found.values() for each in findings)
    ctx.exit(FINDINGS if bad else 0)


@command("simulate")
@click.option("--workers", type=click.IntRange(1, 10_000), default=16, show_default=True)
@click.option("--tenants", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option("--load", type=Number(0.01, 100), default=1.5, show_default=True,
              help="Demand over capacity.")  # fmt: skip
@click.option("--item-seconds", type=Number(0.001), default=1.0, show_default=True,
              help="Mean run time of an item.")  # fmt: skip
@click.option("--seconds", type=Number(1, 1e7), default=3600.0, show_default=True,
              help="Simulated time.")  # fmt: skip
@click.option("--charge", type=click.Choice(("weight", "runtime")), default="runtime",
              show_default=True)  # fmt: skip
@click.option("--cap", type=click.IntRange(1), help="Cap of every tenant.")
@click.option("--seed", type=int, default=1, show_default=True)
def simulate_command(
    chosen: Chosen, workers: int, tenants: int, load: float, item_seconds: float, cap: int | None,
    **given: Any,
) -> None:  # fmt: skip
    """Simulate tenants of very different size, first in first out and fair; no queue is touched."""
    people = zipf_tenants(tenants, load, item_seconds, workers)
    changes: list[Change] = [(0.0, "", {"cap": cap})] if cap else []
    runs: dict[str, Run] = {}
    for name, order in (("fifo", Fifo()), ("fair", Fair())):
        runs[name] = simulate(order, people, workers=workers, changes=changes, **given)
    if chosen.as_json:
        print_json({name: _groups(run) for name, run in runs.items()})
        return
    titles = {"fifo": "first in, first out", "fair": f"fair, charge={given['charge']!r}"}
    click.echo("\n\n".join(f"{titles[name]}\n{table(run)}" for name, run in runs.items()))


def _groups(run: Run) -> dict[str, Any]:
    used = run.worker_seconds()
    groups: list[dict[str, Any]] = []
    for group in dict.fromkeys(tenant.group or tenant.name for tenant in run.tenants):
        names = [each.name for each in run.tenants if (each.group or each.name) == group]
        waits = run.waits(group)
        marks = {f"p{p}_wait_seconds": percentile(waits, p) for p in (50, 95, 99)}
        groups.append({"group": group, "tenants": len(names), "served": len(waits), **marks,
                       "worker_seconds": sum(used[name] for name in names)})  # fmt: skip
    return {"groups": groups, "jain": jain(used.values())}
