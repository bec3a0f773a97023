"""``make bench``: under 10 minutes, ``BENCH=quick`` under 2; see benchmarks/README.md."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.about import about
from benchmarks.blocks import longest_blocks
from benchmarks.contenders import PEER_NAMES, POOLS
from benchmarks.drain import SECONDS, drains
from benchmarks.figures import figures
from benchmarks.growth import growth
from benchmarks.latency import latencies
from benchmarks.plan import Plan
from benchmarks.results import write
from benchmarks.server import optional_features, producers, server_costs
from tests.servers import Server, wanted_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.report import Table

SECTIONS: dict[str, Callable[[Plan], Iterator[Table]]] = {
    "figures": figures,
    "server": server_costs,
    "features": optional_features,
    "producer": producers,
    "growth": growth,
    "blocks": longest_blocks,
    "drain": drains,
    "latency": latencies,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmarks that were asked for, print tables, and keep them if wanted.

    Args:
        arguments: Of the command line; those of this process when None.
    """
    options = _options(arguments)
    quick = os.environ.get("BENCH") == "quick"
    rounds = options.rounds or (1 if quick else 3)
    tables: list[Table] = []
    with Server(options.server) as server, tempfile.TemporaryDirectory() as folder:
        client, url = server.client(0), server.url(0).rsplit("/", 1)[0]
        facts = about(client, rounds=rounds, quick=quick)
        print("\n".join(f"{name}: {value}" for name, value in facts.items()))
        plan = Plan(
            client,
            url,
            rounds,
            quick,
            options.peers,
            options.pool,
            options.work,
            options.server,
            options.accept,
            Path(folder),
        )
        for name in options.only:
            began = time.monotonic()
            for table in SECTIONS[name](plan):
                print(table.text(), flush=True)
                tables.append(table)
            if options.write:  # after each, as a later one may be cut short
                write(tables, facts, sys.argv[1:] if arguments is None else arguments)
            print(f"  {name}: {time.monotonic() - began:.0f} s")
    if options.json:
        kept = {"about": facts, "tables": [asdict(table) for table in tables]}
        options.json.write_text(json.dumps(kept, indent=2) + "\n")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--only", type=_names(SECTIONS), default=tuple(SECTIONS),
                        metavar="NAME,...", help=f"of {', '.join(SECTIONS)}")  # fmt: skip
    parser.add_argument("--peers", type=_names(PEER_NAMES), nargs="?", const=PEER_NAMES, default=(),
                        metavar="NAME,...", help=f"also drain {', '.join(PEER_NAMES)}; all when "
                        "none is named; each is installed in .bench/ first")  # fmt: skip
    parser.add_argument("--pool", type=_names(POOLS), default=(), metavar="NAME,...",
                        help=f"of {', '.join(POOLS)}")  # fmt: skip
    parser.add_argument("--work", type=_names(SECONDS), default=(), metavar="NAME,...",
                        help=f"what items of drains do: {', '.join(SECONDS)}")  # fmt: skip
    parser.add_argument("--server", choices=wanted_kinds(), default=wanted_kinds()[0])
    parser.add_argument("--rounds", type=int, help="interleaved rounds (3; quick 1)")
    parser.add_argument("--accept", action="store_true", help="store the figures as the baseline")
    parser.add_argument("--write", action="store_true",
                        help="write benchmarks/RESULTS.md and docs/bench.svg")  # fmt: skip
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args(arguments)


def _names(known: Sequence[str] | dict[str, object]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        for name in names:
            if name not in known:
                message = f"{name!r} is not one of {', '.join(known)}"
                raise argparse.ArgumentTypeError(message)
        return names

    return read


if __name__ == "__main__":
    main()
