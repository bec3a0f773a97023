"""What people decide about partitions and items: pause, resume, hold, set, cancel, purge."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import click

from vtrr_queue.cli.command import (
    WRONG,
    Chosen,
    Number,
    Problem,
    command,
    confirm,
    not_found,
    one_of,
    yes_option,
)
from vtrr_queue.cli.output import count_of, moment, print_json, shown
from vtrr_queue.policy import HOLD_MAX, Rate

all_option = click.option("--all", "everything", is_flag=True, help="The whole queue.")


@command("pause")
@click.argument("partition", required=False)
@all_option
def pause_command(chosen: Chosen, partition: str | None, *, everything: bool) -> None:
    """Start nothing of a partition, or of the whole queue, until it is resumed."""
    one_of(**{"PARTITION": partition is not None, "--all": everything})
    chosen.queue.pause(partition)
    _tell(chosen, partition, "paused", paused=True)


@command("resume")
@click.argument("partition", required=False)
@all_option
def resume_command(chosen: Chosen, partition: str | None, *, everything: bool) -> None:
    """End a pause."""
    one_of(**{"PARTITION": partition is not None, "--all": everything})
    chosen.queue.resume(partition)
    _tell(chosen, partition, "resumed", paused=False)


@command("hold")
@click.argument("partition", required=False)
@click.option("--for", "seconds", type=Number(0, HOLD_MAX), required=True,
              metavar="SECONDS", help="From now; 0 ends a hold.")  # fmt: skip
@all_option
def hold_command(
    chosen: Chosen, partition: str | None, seconds: float, *, everything: bool
) -> None:
    """Start nothing of a partition, or of the whole queue, for a time."""
    one_of(**{"PARTITION": partition is not None, "--all": everything})
    chosen.queue.hold(partition, seconds)
    text = f"held for {seconds:g} s" if seconds else "no longer held"
    _tell(chosen, partition, text, hold_seconds=seconds)


@command("set")
@click.argument("partition")
@click.option("--share", metavar="NUMBER", help="Turns for each turn of a share of 1, 0.01 to 100.")
@click.option("--cap", metavar="COUNT", help="Most items that run at once.")
@click.option("--rate", metavar="RATE", help="How fast items may start, such as 100/m.")
@click.option("--burst", type=int, help="With --rate: how many may start at once.")
@click.option("--max-backlog", metavar="COUNT", help="Most items that may wait.")
def set_command(chosen: Chosen, partition: str, burst: int | None, **given: str | None) -> None:
    """Change what a partition may do; show its settings when nothing is given.

    The word "default" goes back to the queue's default, "none" takes a default limit away.
    """
    changes = {name: _value(name, text) for name, text in given.items() if text is not None}
    if burst is not None:
        rate = changes.get("rate")
        if not isinstance(rate, Rate):
            raise Problem(f"--burst must go with a --rate, not {burst}", WRONG)
        changes["rate"] = Rate(rate.limit, burst)
    if changes:
        chosen.queue.set_partition(partition, **changes)
    policy = asdict(chosen.queue.get_partition(partition))
    if chosen.as_json:
        print_json({"queue": chosen.queue.name, "partition": partition, **policy})
        return
    for name, value in policy.items():
        click.echo(f"{name.removesuffix('_until_ms')}: {_setting(name, value)}")


@command("cancel")
@click.argument("item_ids", nargs=-1, metavar="[ID]...")
@click.option("--partition", help="Everything of this partition.")
@yes_option
def cancel_command(
    chosen: Chosen, item_ids: tuple[str, ...], partition: str | None, *, yes: bool
) -> None:
    """Take items back: what waits never starts, what runs goes on and does not run again."""
    one_of(**{"ID": bool(item_ids), "--partition": partition is not None})
    what = count_of(len(item_ids), "item") if partition is None else \
        f"everything of partition {partition!r}"  # fmt: skip
    confirm(f"Cancel {what}?", yes=yes)
    done = chosen.queue.cancel(list(item_ids), partition=partition)
    missing = [each for each in item_ids if each not in {*done.waiting, *done.running}]
    if chosen.as_json:
        print_json({"queue": chosen.queue.name, **asdict(done), "missing": missing})
    else:
        click.echo(f"cancelled: {len(done.waiting) + done.backlog:,} that waited, "
                   f"{len(done.running):,} that run")  # fmt: skip
    if not (done.waiting or done.running or done.backlog):
        not_found("none of these items waits or runs" if partition is None else
                  f"nothing of partition {partition!r} waits or runs")  # fmt: skip
    for each in missing:
        click.echo(f"item {shown(each)} neither waits nor runs", err=True)


@command("purge")
@click.argument("partition")
@yes_option
def purge_command(chosen: Chosen, partition: str, *, yes: bool) -> None:
    """Forget all items of a partition that wait."""
    confirm(f"Forget everything of partition {partition!r} that waits?", yes=yes)
    count = chosen.queue.purge(partition)
    if chosen.as_json:
        print_json({"queue": chosen.queue.name, "partition": partition, "purged": count})
    else:
        click.echo(f"{count_of(count, 'item')} purged")
    if not count:
        not_found(f"nothing of partition {partition!r} waits")


def _tell(chosen: Chosen, partition: str | None, text: str, **state: Any) -> None:
    if chosen.as_json:
        print_json({"queue": chosen.queue.name, "partition": partition, **state})
        return
    what = f"queue {shown(chosen.queue.name)}" if partition is None else \
        f"partition {shown(partition)}"  # fmt: skip
    click.echo(f"{what} is {text}")


def _value(name: str, text: str) -> Any:
    if text == "default":
        return None
    if text == "none" and name != "share":
        return math.inf
    if name == "rate":
        return Rate(float(text) if _is_float(text) else text)
    if name == "share" and _is_float(text):
        return float(text)
    if name in {"cap", "max_backlog"} and text.isdecimal():
        return int(text)
    expected = "a number" if name == "share" else "a whole number, or none"
    option = "--" + name.replace("_", "-")
    raise Problem(f"{option} must be {expected}, or default, not {text!r}", WRONG)


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _setting(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['limit']:g} {value['by']} a second, burst {value['burst']}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "held_until_ms":
        return "no" if value is None else f"until {moment(value)}"
    return "default" if value is None else "none" if value == math.inf else f"{value:g}"
