"""``python -m vtrr_queue.web``: the page by itself, without a Celery app.

Invariant: it answers only under names it was given, so that a site that points its own name at
this address (DNS rebinding) reads nothing.
"""

from __future__ import annotations

import argparse
import copy
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from vtrr_queue.errors import VTRRError
from vtrr_queue.opening import URL_VARIABLE, open_engine
from vtrr_queue.web.app import create_app

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKEN_VARIABLE = "VTRR_WEB_TOKEN"  # noqa: S105 - the name of a variable
PACKAGE = "vtrr_queue"
"""Name above all our loggers."""

LOCAL = ("localhost", "127.0.0.1", "::1")
STOP_SECONDS = 3
"""Longest that open streams delay the end, s."""


def main(arguments: Sequence[str] | None = None, queues: Sequence[Any] = ()) -> int:
    """Serve the page until it is told to stop.

    Args:
        arguments: Command line; that of the process when None.
        queues: Queues of an app; without them the command line names one.

    Returns:
        Exit code: 0, or 2 when an option is wrong.
    """
    options = _parser().parse_args(arguments)
    own = [host for host in (options.host.strip("[]"),) if host]
    try:
        queues = queues or [open_engine(options.redis, name) for name in options.name or [None]]
        app = create_app(
            *queues, token=_token(options.token_file), show_payloads=options.show_payloads,
            refresh_seconds=options.refresh,
            allow_hosts=[*LOCAL, *own, *options.allow_host],
        )  # fmt: skip
    except (VTRRError, OSError) as exc:
        print(f"python -m vtrr_queue.web: {exc}", file=sys.stderr)  # noqa: T201
        return 2
    uvicorn.run(app, host=options.host, port=options.port, log_level=options.log_level,
                log_config=_logs(options.log_level), timeout_graceful_shutdown=STOP_SECONDS,
                server_header=False)  # fmt: skip
    return 0


def _logs(level: str) -> dict[str, Any]:
    """The server's settings, and the page's own lines with them unless an app keeps a log."""
    config = copy.deepcopy(uvicorn.config.LOGGING_CONFIG)
    handlers = [] if logging.getLogger(PACKAGE).hasHandlers() else ["default"]
    config["loggers"][PACKAGE] = {"handlers": handlers, "level": level.upper()}
    return config


def _token(path: Path | None) -> str | None:
    if path is not None:
        return path.read_text().strip()
    return os.environ.get(TOKEN_VARIABLE)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vtrr_queue.web",
        description="Show queues on a web page: who waits, how long and why.",
    )
    add = parser.add_argument
    add("--redis", metavar="URL", help=f"address of the queue's database; or set {URL_VARIABLE}")
    add("--name", action="append", help="name of a queue; may be given again")
    add("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    add("--port", type=int, default=8380, help="port to listen on (%(default)s)")
    add("--allow-host", action="append", default=[], metavar="NAME",
        help="name under which browsers may ask, beside localhost and --host")  # fmt: skip
    add("--token-file", type=Path, metavar="FILE",
        help=f"file with the token that allows actions; or set {TOKEN_VARIABLE}; "
             f"read-only without")  # fmt: skip
    add("--show-payloads", action="store_true",
        help="show arguments, exceptions and tracebacks of dead letters")  # fmt: skip
    add("--refresh", type=float, default=2.0, metavar="SECONDS", help="(%(default)s)")
    add("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return parser
