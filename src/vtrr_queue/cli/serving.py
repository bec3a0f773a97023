"""Commands that run until they are told to stop: the web page and the exporter."""

from __future__ import annotations

import importlib
from typing import Any

import click

from vtrr_queue.cli.command import Chosen, Guarded

_AS_GIVEN = {"ignore_unknown_options": True, "allow_extra_args": True}


def _serving(name: str, package: str, summary: str) -> click.Command:
    """A command with the options of ``python -m`` of a package; of an app it takes the queues."""

    def run(
        ctx: click.Context, arguments: tuple[str, ...], vtrr_url: str | None,
        vtrr_names: tuple[str, ...],
    ) -> None:  # fmt: skip
        meta, words = ctx.meta, list(arguments)
        queues: list[Any] = []
        url = vtrr_url or meta["vtrr.url"]
        names = vtrr_names or (meta["vtrr.name"],)  # None is all queues of an app
        if meta["vtrr.app"] is not None and not url:
            chosen = [Chosen({**meta, "vtrr.name": name}) for name in dict.fromkeys(names)]
            queues = [queue for each in chosen for queue in each.all]
        else:
            words += ["--redis", url] if url else []
            words += [f"--name={name}" for name in names if name is not None]
        # Its entry says what to install when the extra is missing.
        entry: Any = importlib.import_module(f"vtrr_queue.{package}.__main__")
        ctx.exit(entry.main(words, tuple(queues)))

    run.__doc__ = summary
    made = click.command(name, cls=Guarded, context_settings=_AS_GIVEN, add_help_option=False)
    made = made(click.pass_context(run))
    made.params += [
        click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED),
        click.Option(["--redis", "vtrr_url"]),
        click.Option(["--name", "--queue", "vtrr_names"], multiple=True),
    ]
    return made


web_command = _serving("web", "web", "Show queues on a web page; --help lists its options.")
exporter_command = _serving("exporter", "metrics", "Export metrics to Prometheus; --help lists its "
                            "options.")  # fmt: skip
