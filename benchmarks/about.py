"""What a run of the benchmarks has to say of itself: machine, versions, commit, load."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import redis

ROOT = Path(__file__).parents[1]


def about(client: redis.Redis, *, rounds: int, quick: bool) -> dict[str, str]:
    """Name -> what it was in this run.

    Args:
        client: The run's server.
        rounds: Interleaved rounds.
        quick: Whether it is a quick run.
    """
    server = client.info("server")
    name = f"{server.get('server_name', 'redis')} "
    name += str(server.get("valkey_version", server["redis_version"]))
    packages = ("celery", "kombu", "redis")
    return {
        "machine": f"{os.cpu_count()} cores, {_processor()}, {platform.system()}",
        "load when it began": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "server": name,
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
        "commit": _commit(),
        "rounds": f"{rounds}{', quick' if quick else ''}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607 - whichever git the person uses
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") + (" and changes" if git("diff", "HEAD") else "")
