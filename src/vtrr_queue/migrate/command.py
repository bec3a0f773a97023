"""The command: options, the order of things, what is printed, exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import redis
from redis.exceptions import RedisError

from vtrr_queue.errors import VTRRError
from vtrr_queue.keys import SCHEMA, is_our_layout
from vtrr_queue.migrate.conversion import BATCH, Migration, Tally
from vtrr_queue.migrate.old_layout import MIGRATING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtrr_queue.migrate.survey import Found

DONE, FAILED, NOTHING, INTERRUPTED = 0, 1, 3, 130
"""Exit codes; argparse adds 2 for wrong options."""

URL_VARIABLE = "VTRR_REDIS_URL"

_BATCH_MAX = 10_000
_SECONDS_BETWEEN_LINES = 1.0
_MOST_FAULTS_SHOWN = 20

_DESCRIPTION = """\
Convert a queue that vtrr-queue 0.2 left in Redis or Valkey to the keys of this release.

No item is lost or doubled: waiting items keep their order within their partition, their payload,
weight and count of timeouts; a leased item keeps its lease and runs again only when that ends.
"""

_EPILOG = f"""\
how to:
  1. Stop every producer and worker of 0.2 that uses this queue (warm shutdown, so that running
     items finish).
  2. Look:     python -m vtrr_queue.migrate --redis redis://localhost:6379/0 --name files --dry-run
  3. Convert:  the same without --dry-run
  4. Start producers and workers of this release.

It may be interrupted at any moment and started again: it goes on where it stopped. Until it has
ended, this release refuses the queue (SchemaMismatch) and 0.2 finds it empty.

exit codes:
  {DONE}    converted, or converted before; with --dry-run: it can be converted
  {FAILED}    failed or refused, the reason is on stderr; start it again after the cause is removed
  2    wrong option
  {NOTHING}    there are no keys under this name: nothing was ever queued, all is done, or a typing error
  {INTERRUPTED}  interrupted by Ctrl-C; start it again
"""  # noqa: E501


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Command line without the program; the process's own by default.

    Returns:
        The exit code.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.redis:
        parser.error(f"--redis URL is needed (or the environment variable {URL_VARIABLE})")
    try:
        client = redis.Redis.from_url(options.redis)
    except ValueError as exc:
        parser.error(f"--redis: {exc}")
    try:
        migration = Migration(client, options.name, options.batch)
        try:
            return _migrate(migration, dry_run=options.dry_run)
        finally:
            migration.close()
    except KeyboardInterrupt:
        _complain("interrupted; start it again to go on")
        return INTERRUPTED
    except (RedisError, OSError) as exc:
        _complain(f"Redis failed: {exc}\nNothing is lost; start it again when Redis answers.")
    except VTRRError as exc:
        _complain(str(exc))
    return FAILED


def _migrate(migration: Migration, *, dry_run: bool) -> int:
    found = migration.look()
    prefix = migration.keys.live.prefix
    if is_our_layout(found.schema):
        _say(f"{prefix}* has layout {SCHEMA} already: nothing to convert")
        return DONE
    if not found.schema and not found.live:
        _say(f"{prefix}* holds no keys of vtrr-queue 0.2: nothing to convert")
        return NOTHING
    if found.schema == MIGRATING:
        _say(f"{prefix}* is half converted: going on")
    if dry_run:
        _describe(migration, found)
        return DONE
    _warn_of_leases(migration, found)
    _convert(migration)
    return DONE


def _convert(migration: Migration) -> None:
    began = time.monotonic()
    last = began

    def report(total: Tally) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            _say(f"{total.items:,} items converted")

    total = migration.run(report)
    seconds = time.monotonic() - began
    _say(f"{total.items:,} items converted in {seconds:.1f} s")
    if migration.placed is None:
        _say("another conversion of the same queue has ended meanwhile")
        return
    _say(f"{migration.keys.live.prefix}* now has layout {SCHEMA}: {_counts(migration.placed)}")
    if total.repeated:
        _say(f"ids that stood there twice, of which the first was kept: {total.repeated:,}")
    if migration.placed.dead:
        _say("dead letters are items that cannot be run; the key 'dead' keeps them and says why")


def _describe(migration: Migration, found: Found) -> None:
    """Print what a conversion would do."""
    tally, partitions = Tally(), set()
    for item, expiry in migration.read(found):
        if item.fault:
            tally = tally.plus(Tally(dead=1))
            if tally.dead <= _MOST_FAULTS_SHOWN:
                _say(f"would become a dead letter: {item.item_id!r} {item.fault}")
            continue
        partitions.add(item.partition)
        tally = tally.plus(Tally(waiting=1) if expiry is None else Tally(leased=1))
    _warn_of_leases(migration, found)
    _say(f"would convert: {_counts(tally)}; partitions: {len(partitions):,}")
    _say("dry run: nothing was changed")


def _warn_of_leases(migration: Migration, found: Found) -> None:
    running, last_ms = migration.unexpired(found)
    if running:
        until = datetime.fromtimestamp(last_ms / 1000, UTC)
        _say(
            f"leases that have not expired: {running:,}, the last ends at "
            f"{until:%Y-%m-%d %H:%M:%S} UTC. They are kept. If their workers still run, stop them: "
            "what they finish once the conversion has begun is not noticed and runs again"
        )


def _counts(tally: Tally) -> str:
    return f"{tally.waiting:,} waiting, {tally.leased:,} leased, {tally.dead:,} dead letters"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vtrr_queue.migrate",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--redis",
        metavar="URL",
        default=os.environ.get(URL_VARIABLE),
        help="server and database, redis://[[user]:password@]host:port/db (rediss:// for TLS, "
        f"unix:// for a socket); default: environment variable {URL_VARIABLE}, which keeps a "
        "password out of the process list",
    )
    add("--name", required=True, type=_name, help="name of the queue, as given to VTRRQueue(name=)")
    add(
        "--batch",
        type=_batch,
        default=BATCH,
        metavar="N",
        help=f"items moved in one transaction, 1 to {_BATCH_MAX:,}, default {BATCH}; take less "
        "when payloads are large",
    )
    add("--dry-run", action="store_true", help="read everything, say what would be done, stop")
    return parser


def _name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _batch(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _BATCH_MAX:
        raise argparse.ArgumentTypeError(f"must be 1 to {_BATCH_MAX}, not {number}")
    return number


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _complain(line: str) -> None:
    sys.stderr.write(f"{line}\n")
