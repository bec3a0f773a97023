"""Who waits, how much and why: status, partitions, why, top."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, get_args

import click

from vtrr_queue.cli.command import Chosen, Number, command, not_found
from vtrr_queue.cli.output import (
    cell,
    count_of,
    percent,
    plain,
    print_json,
    print_table,
    seconds,
    shown,
    until,
)
from vtrr_queue.survey import LIMIT_MAX, Overview, Row, Sort, Survey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtrr_queue.engine import Engine

SORTS = click.Choice(get_args(Sort))

TITLES = ("partition", "state", "waiting", "running", "oldest", "used", "due", "share", "cap",
          "rate/s")  # fmt: skip

_SIGNS = ("schema", "stats", "policy", "dead")
"""Keys of which a queue that was used has one, unless statistics are off and it is at rest."""


@command("status")
def status_command(chosen: Chosen) -> None:
    """Show the numbers of the queue, or of all queues of the app."""
    engines = [queue.engine for queue in chosen.all]
    found = [Survey(engine).status() for engine in engines]
    if chosen.as_json:
        queues = [
            without_rows(overview) | {"stored": _is_stored(engine, overview)}
            for engine, overview in zip(engines, found, strict=True)
        ]
        print_json({"queues": queues})
        return
    for engine, overview in zip(engines, found, strict=True):
        for line in summary(overview, is_least=not overview.whole):
            click.echo(line)
        if not _is_stored(engine, overview):
            click.echo("  nothing is stored under this name")


def _is_stored(engine: Engine, overview: Overview) -> bool:
    if overview.waiting or overview.delayed or overview.running or overview.dead:
        return True
    (stored,) = engine.client.read(("EXISTS", *(engine.keys[key] for key in _SIGNS)))
    return bool(stored)


@command("partitions")
@click.option("--sort", type=SORTS, default="backlog", show_default=True, help="Largest first.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=20, show_default=True)
@click.option("--find", metavar="TEXT", help="Only those with this in their name.")
def partitions_command(chosen: Chosen, sort: Sort, limit: int, find: str | None) -> None:
    """Show the partitions that have work, the largest first."""
    found = Survey(chosen.queue.engine).look(sort, limit, find)
    if chosen.as_json:
        print_json({**without_rows(found), "rows": found.rows})
        return
    print_table(TITLES, (row_cells(row, found.at_ms) for row in found.rows))
    if len(found.rows) < found.partitions and not find:
        click.echo(f"{len(found.rows):,} of {found.partitions:,} partitions with work")


@command("why")
@click.argument("name", metavar="PARTITION|ID")
def why_command(chosen: Chosen, name: str) -> None:
    """Say why a partition, or an item, is not running."""
    found = Survey(chosen.queue.engine).why(name)
    if found[0].kind == "unknown":
        not_found(found[0].text)
    if chosen.as_json:
        print_json({"queue": chosen.queue.name, "name": name, "reasons": found})
        return
    for reason in found:
        click.echo(f"{reason.kind}: {shown(reason.text)}")


@command("top")
@click.option("--sort", type=SORTS, default="backlog", show_default=True, help="Largest first.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=20, show_default=True)
@click.option("--interval", type=Number(0.1, 3600), default=1.0, show_default=True,
              help="Seconds between two looks.")  # fmt: skip
@click.option("--count", type=click.IntRange(1), help="End after so many looks.")
def top_command(chosen: Chosen, **given: Any) -> None:
    """Watch the partitions until q or Ctrl-C; with --json, one object a line."""
    from vtrr_queue.cli.top import watch  # noqa: PLC0415 - rich takes its time

    watch(Survey(chosen.queue.engine), as_json=chosen.as_json, **given)


def without_rows(overview: Overview) -> dict[str, Any]:
    """The numbers of a queue as JSON."""
    names = (field.name for field in dataclasses.fields(overview) if field.name != "rows")
    return {name: plain(getattr(overview, name)) for name in names}


def row_cells(row: Row, now_ms: int) -> tuple[object, ...]:
    """One partition for people."""
    state = row.state if row.until_ms is None else f"{row.state} {until(row.until_ms, now_ms)}"
    rate = None if row.rate is None else float(row.rate.limit)
    return (row.name, state, row.waiting, row.running, seconds(row.oldest), percent(row.used),
            percent(row.due), row.share, row.cap, rate)  # fmt: skip


def summary(overview: Overview, *, is_least: bool = False) -> Iterator[str]:
    """The numbers of a queue for people; its partitions may be the least there are."""
    yield (f"{shown(overview.name)}: {overview.waiting:,} waiting, {overview.delayed:,} delayed, "
           f"{overview.running:,} running, {overview.dead:,} dead; "
           f"{'at least ' * is_least}{count_of(overview.partitions, 'partition')} with work, "
           f"{overview.servable:,} servable")  # fmt: skip
    now_ms = overview.at_ms
    if overview.paused:
        yield "  paused"
    if overview.held_until_ms:
        yield f"  held, ends {until(overview.held_until_ms, now_ms)}"
    if overview.limited_until_ms:
        yield f"  limited by its rate, goes on {until(overview.limited_until_ms, now_ms)}"
    if overview.max_in_flight:
        yield f"  at most {cell(overview.max_in_flight)} running at once"
    if overview.next_wake_ms:
        yield f"  next change by itself {until(overview.next_wake_ms, now_ms)}"
