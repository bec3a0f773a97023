"""The command: options, the order of things, exit codes.

0 shown, 1 failed (reason and logs on stderr), 2 wrong option, 128 + signal when stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import redis
from kombu.exceptions import KombuError, OperationalError
from rich.console import Console

from vtrr_queue.demo.children import tail
from vtrr_queue.demo.outcome import DemoFailed, Stopped, StopRequest
from vtrr_queue.demo.picture import draw
from vtrr_queue.demo.report import Comparison, LaneFigures
from vtrr_queue.demo.scenario import FLOOD, Lane, Run, Scenario, play
from vtrr_queue.demo.server import connect, embedded_valkey
from vtrr_queue.demo.show import closing_lines, make_show, table
from vtrr_queue.demo.tasks import FAIR, PLAIN, build
from vtrr_queue.demo.workers import GRACE_SECONDS, forget_celery_settings, running_workers
from vtrr_queue.errors import VTRRError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtrr_queue.demo.show import Show

TITLES = {PLAIN: "plain Celery", FAIR: "vtrr-queue"}
_FAILURES = (DemoFailed, KombuError, OperationalError, OSError, VTRRError, redis.RedisError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo.

    Args:
        arguments: Command line without the program; the process's own by default.

    Returns:
        The exit code.
    """
    options = _parse(arguments)
    scenario = Scenario(options.items, options.small, options.seed)
    console = Console()
    forget_celery_settings()
    with StopRequest().listening() as stop:
        try:
            with make_show(console, list(TITLES.values()), scenario.expected) as show:
                comparison = _demonstrate(scenario, options, show, stop)
            _write_files(comparison, scenario, options)
        except Stopped as stopped:
            print(f"demo {stopped}; everything it started is gone", file=sys.stderr)
            return stopped.exit_code
        except DemoFailed as failed:
            print(f"demo failed: {failed.reason}\n{failed.logs}", file=sys.stderr)
            return 1
    console.print(table(comparison))
    console.print(closing_lines(comparison), markup=False, highlight=False)
    return 0


def _demonstrate(
    scenario: Scenario,
    options: argparse.Namespace,
    show: Show,
    stop: StopRequest,
) -> Comparison:
    """Run both lanes on a server and workers that live no longer than this call."""
    with tempfile.TemporaryDirectory(prefix="vtrr-demo-") as name:
        folder = Path(name)
        try:
            return _run_lanes(folder, scenario, options, show, stop)
        except _FAILURES as error:
            logs = "".join(
                f"--- end of {log.name}\n{tail(log)}\n" for log in sorted(folder.glob("*.log"))
            )
            raise DemoFailed(str(error) or type(error).__name__, logs) from error


def _run_lanes(
    folder: Path,
    scenario: Scenario,
    options: argparse.Namespace,
    show: Show,
    stop: StopRequest,
) -> Comparison:
    with ExitStack() as stack:
        show.say("starting Valkey and two Celery workers")
        url = stack.enter_context(embedded_valkey(folder, stop.check))
        workers = stack.enter_context(running_workers(folder, url, options.dispatch, stop.check))
        client = stack.enter_context(connect(url))
        tasks = build(url, options.dispatch)

        def observe(run: Run) -> None:
            stop.check()
            workers.check()
            show.update(run)

        ended: list[tuple[Run, float]] = []
        for key, enqueue in ((PLAIN, tasks.enqueue_plain), (FAIR, tasks.enqueue_fair)):
            lane = Lane(key, TITLES[key], enqueue)
            show.say(f"{lane.title}: {scenario.items:,} items flood in, small tenants follow")
            run, seconds = play(scenario, lane, client, options.timeout, observe)
            show.finish(run, seconds)
            ended.append((run, seconds))
        show.say("stopping the workers, looking for items that ran twice")
        workers.end(GRACE_SECONDS)
        for run, _ in ended:
            run.read(client)
            run.verify()
    plain, fair = (
        LaneFigures.of(run.lane.title, seconds, run.ledger.waits, FLOOD) for run, seconds in ended
    )
    return Comparison(plain, fair, FLOOD)


def _write_files(
    comparison: Comparison,
    scenario: Scenario,
    options: argparse.Namespace,
) -> None:
    try:
        if options.json:
            options.json.write_text(_as_json(comparison, scenario, options), encoding="utf-8")
        if options.svg:
            options.svg.write_text(draw(comparison), encoding="utf-8")
    except OSError as error:
        raise DemoFailed(f"cannot write: {error}") from error


def _as_json(comparison: Comparison, scenario: Scenario, options: argparse.Namespace) -> str:
    about = asdict(scenario) | {"dispatch": options.dispatch}
    return json.dumps(about | comparison.figures(), indent=2) + "\n"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m vtrr_queue.demo",
        description="One flooding tenant beside five small ones: plain Celery and vtrr-queue.",
    )
    default = Scenario()
    add = parser.add_argument
    add("--dispatch", choices=("trigger", "direct"), default="trigger", help="how workers wake up")
    add("--items", type=_positive, default=default.items, help="items of the flooding tenant")
    add("--small", type=_positive, default=default.small, help="items of each small tenant")
    add("--seed", type=int, default=default.seed, help="order in which the small tenants come")
    add("--timeout", type=float, default=60.0, help="give up when a lane takes longer, s")
    add("--json", type=_writable, metavar="FILE", help="write the figures")
    add("--svg", type=_writable, metavar="FILE", help="write a picture of the figures")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {number}")
    return number


def _writable(text: str) -> Path:
    """Refuse a path that can't be written before the demo has run, not after."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"not a file in an existing folder: {text}")
    return path
