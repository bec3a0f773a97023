"""What failed or was lost: requeue, drop, reclaim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vtrr_queue.cli.command import Chosen, command, confirm, not_found, one_of, yes_option
from vtrr_queue.cli.output import count_of, print_json, shown

if TYPE_CHECKING:
    from collections.abc import Callable

all_option = click.option("--all", "everything", is_flag=True, help="Every dead letter.")


@command("requeue")
@click.argument("item_ids", nargs=-1, metavar="[ID]...")
@click.option("--partition", help="Every dead letter of this partition.")
@all_option
@yes_option
def requeue_command(
    chosen: Chosen, item_ids: tuple[str, ...], partition: str | None, *, everything: bool,
    yes: bool,
) -> None:  # fmt: skip
    """Run dead letters again, with no timeout and no retry counted."""
    dead = chosen.queue.dead
    ways = (dead.requeue, dead.requeue_partition, dead.requeue_all)
    count = _act(ways, "Run again", item_ids, partition, everything=everything, yes=yes)
    _tell(chosen, "requeued", count)


@command("drop")
@click.argument("item_ids", nargs=-1, metavar="[ID]...")
@click.option("--partition", help="Every dead letter of this partition.")
@all_option
@yes_option
def drop_command(
    chosen: Chosen, item_ids: tuple[str, ...], partition: str | None, *, everything: bool,
    yes: bool,
) -> None:  # fmt: skip
    """Forget dead letters."""
    dead = chosen.queue.dead
    ways = (dead.drop, dead.drop_partition, dead.drop_all)
    count = _act(ways, "Forget", item_ids, partition, everything=everything, yes=yes)
    _tell(chosen, "dropped", count)


@command("reclaim")
def reclaim_command(chosen: Chosen) -> None:
    """Put expired leases back and send the triggers that waiting items lack."""
    count = chosen.queue.reclaim_and_dispatch()
    if chosen.as_json:
        print_json({"queue": chosen.queue.name, "reclaimed": count})
        return
    click.echo(f"{count_of(count, 'expired lease')}")


def _act(
    ways: tuple[Callable[..., list[str]], Callable[[str], int], Callable[[], int]], verb: str,
    item_ids: tuple[str, ...], partition: str | None, *, everything: bool, yes: bool,
) -> int:  # fmt: skip
    by_id, by_partition, of_all = ways
    one_of(**{"ID": bool(item_ids), "--partition": partition is not None, "--all": everything})
    if item_ids:
        confirm(f"{verb} {count_of(len(item_ids), 'dead letter')}?", yes=yes)
        done = by_id(*item_ids)
        for each in sorted({*item_ids} - {*done}):
            click.echo(f"there is no dead letter {shown(each)}", err=True)
        return len(done)
    if partition is not None:
        confirm(f"{verb} every dead letter of partition {partition!r}?", yes=yes)
        return by_partition(partition)
    confirm(f"{verb} every dead letter?", yes=yes)
    return of_all()


def _tell(chosen: Chosen, verb: str, count: int) -> None:
    if chosen.as_json:
        print_json({"queue": chosen.queue.name, verb: count})
    elif count:
        click.echo(f"{count_of(count, 'dead letter')} {verb}")
    if not count:
        not_found("there is no such dead letter")
