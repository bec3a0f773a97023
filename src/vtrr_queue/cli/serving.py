"""Commands that run until they are told to stop: the web page and the exporter."""

from __future__ import annotations

import importlib
from typing import Any

import click

from vtrr_queue.cli.command import Chosen, Guarded

_AS_GIVEN = {"ignore_unknown_options": True, "allow_extra_args": True}


def _serving(name: str, package: str, summary: str) -> click.Command:
    """A command with the options of ``python -m`` of a package; of an app it takes the queues."""

    def run(ctx: click.Context, arguments: tuple[str, ...]) -> None:
        meta, queues = ctx.meta, ()
        words = list(arguments)
        if meta["vtrr.app"] is not None and not meta["vtrr.url"] and "--redis" not in words:
            queues = tuple(Chosen(meta).all)
        elif meta["vtrr.url"]:
            words += ["--redis", meta["vtrr.url"]]
        if meta["vtrr.name"] is not None and not queues:
            words += ["--name", meta["vtrr.name"]]
        # Its entry says what to install when the extra is missing.
        entry: Any = importlib.import_module(f"vtrr_queue.{package}.__main__")
        ctx.exit(entry.main(words, queues))

    run.__doc__ = summary
    made = click.command(name, cls=Guarded, context_settings=_AS_GIVEN, add_help_option=False)
    return made(
        click.argument("arguments", nargs=-1, type=click.UNPROCESSED)(click.pass_context(run))
    )


web_command = _serving("web", "web", "Show queues on a web page; --help lists its options.")
exporter_command = _serving("exporter", "metrics", "Export metrics to Prometheus; --help lists its "
                            "options.")  # fmt: skip
