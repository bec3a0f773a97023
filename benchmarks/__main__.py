"""``make bench``: a baseline in about a minute; ``--json FILE`` keeps the figures."""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

import redis

from benchmarks.fairness import control_costs, life_costs
from benchmarks.producer import producer_rates
from benchmarks.servercost import memory_per_item, script_costs
from tests.servers import Server, wanted_kinds


def main() -> None:
    """Run every benchmark against each server found and print tables."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--items", type=int, default=100_000, help="items waiting (default 100000)")
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    for kind in wanted_kinds():
        with Server(kind) as server:
            client = redis.Redis.from_url(server.url(0))
            version = client.info("server")
            name = f"{version.get('server_name', 'redis')} " + str(
                version.get("valkey_version", version["redis_version"])
            )
            figures[name] = _measure(client, server.url(0).rsplit("/", 1)[0], options)
            _print(name, figures[name], options)
    if options.json:
        about = {"machine": platform.machine(), "python": platform.python_version()}
        options.json.write_text(json.dumps({"about": about, "figures": figures}, indent=2) + "\n")


def _measure(client: redis.Redis, url: str, options: argparse.Namespace) -> dict[str, float]:
    found = {"bytes a waiting item": memory_per_item(client, options.items)}
    costs = script_costs(client, options.items, options.partitions, options.rounds)
    found |= {f"us {name}": value for name, value in costs.items()}
    lives = life_costs(client, options.rounds)
    found |= {f"us/life {name}": value for name, value in lives.items()}
    found |= {f"us {name}": value for name, value in control_costs(client, options.rounds).items()}
    rates = producer_rates(url, options.rounds)
    found |= {f"items/s {name}": value for name, value in rates.items()}
    return found


def _print(name: str, found: dict[str, float], options: argparse.Namespace) -> None:
    print(f"\n{name}, {options.items:,} items over {options.partitions:,} partitions")
    floor = found["us trivial EVALSHA"]
    peer = found["items/s apply_async, one at a time"]
    for key, value in found.items():
        unit, _, what = key.partition(" ")
        note = ""
        if unit == "us":
            peer_value = found.get(f"us eager {what}")
            note = f"{value / floor:6.1f} x a trivial EVALSHA"
            note += f", {value / peer_value:5.2f} x eager" if peer_value else ""
        elif unit == "us/life":
            note = f"{value / found['us/life nothing optional']:6.2f} x the life without"
        elif unit == "items/s":
            note = f"{value / peer:6.1f} x apply_async"
        print(f"  {what:44} {value:12,.1f} {unit:8} {note}")


if __name__ == "__main__":
    main()
