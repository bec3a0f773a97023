"""``python -m vtrr_queue.metrics``: an exporter for Prometheus, without a Celery app."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from vtrr_queue.errors import VTRRError
from vtrr_queue.metrics.prometheus import PORT, serve_metrics
from vtrr_queue.opening import URL_VARIABLE, open_engine

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, queues: Sequence[Any] = ()) -> int:
    """Serve metrics until SIGTERM or SIGINT.

    Args:
        arguments: Command line; that of the process when None.
        queues: Queues of an app; without them the command line names one.

    Returns:
        Exit code: 0, or 2 when an option is wrong or the port is taken.
    """
    options = _parser().parse_args(arguments)
    stop = threading.Event()
    try:
        queues = queues or [open_engine(options.redis, name) for name in options.name or [None]]
        server = serve_metrics(*queues, port=options.port, host=options.host, top=options.top,
                               partitions=options.partition)  # fmt: skip
    except (VTRRError, OSError, OverflowError) as exc:
        print(f"python -m vtrr_queue.metrics: {exc}", file=sys.stderr)  # noqa: T201
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with server:
        print(f"http://{options.host}:{server.port}/metrics", flush=True)  # noqa: T201
        stop.wait()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vtrr_queue.metrics", description="Export metrics of queues to Prometheus."
    )
    add = parser.add_argument
    add("--redis", metavar="URL", help=f"address of the queue's database; or set {URL_VARIABLE}")
    add("--name", action="append", help="name of a queue; may be given again")
    add("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    add("--port", type=int, default=PORT, help="port to listen on (%(default)s)")
    add("--top", type=int, default=0, metavar="K",
        help="label the K partitions with the largest backlogs (%(default)s)")  # fmt: skip
    add("--partition", action="append", default=[], metavar="NAME",
        help="label this partition instead; may be given again")  # fmt: skip
    return parser
