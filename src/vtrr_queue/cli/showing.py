"""Single items: peek, leases, item, dead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vtrr_queue.cli.command import Chosen, command, not_found
from vtrr_queue.cli.output import moment, plain, print_json, print_table, seconds, shown, until
from vtrr_queue.errors import UndecodablePayload
from vtrr_queue.items import Items
from vtrr_queue.payload import decode

if TYPE_CHECKING:
    from vtrr_queue.engine import Engine
    from vtrr_queue.items import Seen
    from vtrr_queue.model import DeadLetter
    from vtrr_queue.records import HeldLease

LIMIT_MAX = 1000

CAUSE_MAX = 100
"""Longest cause in a list of dead letters."""

JSON = "application/json"
"""The content type that is decoded."""

limit_option = click.option(
    "--limit", type=click.IntRange(1, LIMIT_MAX), default=20, show_default=True
)
payload_option = click.option("--payload", is_flag=True, help="Show the arguments, too.")


@command("peek")
@click.argument("partition", required=False)
@limit_option
@payload_option
def peek_command(chosen: Chosen, partition: str | None, limit: int, *, payload: bool) -> None:
    """Show the next items of a partition, or the next item of each of the next partitions."""
    items = Items(chosen.queue.engine)
    found = items.next_served(limit) if partition is None else items.next_of(partition, limit)
    if chosen.as_json:
        listed = [seen_as_json(each, payload=payload) for each in found]
        print_json({"queue": chosen.queue.name, "items": listed})
        return
    rows = ((each.item_id, each.partition, task_name(each.body), each.priority, each.weight,
             each.timeouts, each.retries, *([arguments(each.body)] if payload else []))
            for each in found)  # fmt: skip
    titles = ("item", "partition", "task", "priority", "weight", "timeouts", "retries")
    print_table((*titles, "arguments") if payload else titles, rows)


@command("leases")
@limit_option
def leases_command(chosen: Chosen, limit: int) -> None:
    """Show what runs, the next lease to end first."""
    found = chosen.queue.inspector.leases(limit)
    now_ms = _now_ms(chosen.queue.engine)
    if chosen.as_json:
        print_json({"queue": chosen.queue.name, "at_ms": now_ms,
                    "leases": [_without_token(each) for each in found]})  # fmt: skip
        return
    rows = ((each.item_id, each.partition, each.holder,
             seconds((now_ms - each.started_at_ms) / 1000), until(each.expires_at_ms, now_ms),
             each.charge) for each in found)  # fmt: skip
    print_table(("item", "partition", "holder", "for", "lease ends", "charge"), rows)


@command("item")
@click.argument("item_id", metavar="ID")
@payload_option
def item_command(chosen: Chosen, item_id: str, *, payload: bool) -> None:
    """Show where an item is."""
    seen = Items(chosen.queue.engine).find(item_id)
    if seen is None:
        not_found(f"there is no item {item_id!r}: it is done, was cancelled, or never was")
    found = seen_as_json(seen, payload=payload)
    if chosen.as_json:
        print_json({"queue": chosen.queue.name, **found})
        return
    _print_fields(found)


@command("dead")
@click.argument("item_id", metavar="[ID]", required=False)
@click.option("--partition", help="Only letters of this partition.")
@limit_option
@payload_option
def dead_command(
    chosen: Chosen, item_id: str | None, partition: str | None, limit: int, *, payload: bool
) -> None:
    """List dead letters, the latest first; or show one with its traceback."""
    letters = chosen.queue.dead
    if item_id is not None:
        letter = letters.get(item_id)
        if letter is None:
            not_found(f"there is no dead letter {item_id!r}")
        found = letter_as_json(letter, payload=payload)
        if chosen.as_json:
            print_json({"queue": chosen.queue.name, **found})
        else:
            _print_fields(found)
        return
    latest = letters.latest(limit, partition)
    if chosen.as_json:
        listed = [letter_as_json(each, payload=payload) for each in latest]
        print_json({"queue": chosen.queue.name, "count": len(letters), "letters": listed})
        return
    rows = ((each.item_id, each.partition, moment(each.died_at_ms), each.timeouts, each.retries,
             _cause(each)) for each in latest)  # fmt: skip
    print_table(("item", "partition", "died", "timeouts", "retries", "reason"), rows)


def seen_as_json(seen: Seen, *, payload: bool) -> dict[str, Any]:
    """An item; its arguments only when they are asked for."""
    found: dict[str, Any] = {**plain(seen), "task": task_name(seen.body)}
    return found | ({"arguments": arguments(seen.body)} if payload else {})


def letter_as_json(letter: DeadLetter, *, payload: bool) -> dict[str, Any]:
    """A dead letter; its arguments only when they are asked for."""
    found: dict[str, Any] = {**plain(letter), "task": task_name(letter.body)}
    return found | ({"arguments": arguments(letter.body)} if payload else {})


def task_name(body: bytes) -> str | None:
    """Celery task of a payload; None when it cannot be read."""
    try:
        return decode(body).task_name
    except UndecodablePayload:
        return None


def arguments(body: bytes) -> str:
    """The arguments as Python writes them; only JSON is decoded, as the rest may run code."""
    try:
        args, kwargs = decode(body).call([JSON])
    except UndecodablePayload as exc:
        return f"({exc})"
    return ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])


def _print_fields(found: dict[str, Any]) -> None:
    for name, value in found.items():
        if value is None or value == "":
            continue
        text = moment(value) if name.endswith("_ms") else value
        if name == "traceback":
            click.echo(f"{name}:")
            for line in str(value).splitlines():
                click.echo(f"  {shown(line)}")
            continue
        click.echo(f"{name.removesuffix('_ms')}: {shown(text)}")


def _cause(letter: DeadLetter) -> str:
    """Why an item died, on one line."""
    cause = f"{letter.reason}: {letter.exception}" if letter.exception else letter.reason
    return cause if len(cause) <= CAUSE_MAX else cause[: CAUSE_MAX - 3] + "..."


def _without_token(lease: HeldLease) -> dict[str, Any]:
    """A lease as JSON; its token is the right to finish the item."""
    return {name: value for name, value in plain(lease).items() if name != "token"}


def _now_ms(engine: Engine) -> int:
    ((whole, micro),) = engine.client.read(("TIME",))
    return int(whole) * 1000 + int(micro) // 1000
