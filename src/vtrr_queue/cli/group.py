"""The group of all commands, which imports none of them."""

from __future__ import annotations

import importlib
from typing import Any

import click

MODULES = {
    "looking": ("status", "partitions", "why", "top"),
    "showing": ("peek", "leases", "item", "dead"),
    "deciding": ("pause", "resume", "hold", "set", "cancel", "purge"),
    "mending": ("requeue", "drop", "reclaim"),
    "checking": ("audit", "doctor", "simulate"),
    "serving": ("web", "exporter"),
}
"""Module of this package -> its commands."""

COMMANDS = {name: module for module, names in MODULES.items() for name in names}


class LazyGroup(click.Group):
    """Commands that are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names in the order of the help."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"vtrr_queue.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command


@click.group(cls=LazyGroup)
@click.option("--redis", "url", metavar="URL", help="Server and database of the queue, instead of "
              "those of the app; VTRR_REDIS_URL is another way to say it.")  # fmt: skip
@click.option("--name", "--queue", "name", metavar="NAME",
              help="Which queue; needed where there are several, and without an app.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.version_option(package_name="vtrr-queue")
@click.pass_context
def vtrr(ctx: click.Context, url: str | None, name: str | None, *, as_json: bool) -> None:
    """See who waits in a fair queue and why, and act on one tenant."""
    found: Any = getattr(ctx.find_root(), "obj", None)
    ctx.meta["vtrr.app"] = getattr(found, "app", None)
    ctx.meta["vtrr.url"] = url
    ctx.meta["vtrr.name"] = name
    ctx.meta["vtrr.json"] = as_json


def main() -> None:
    """Run ``vtrr``."""
    vtrr(prog_name="vtrr")
