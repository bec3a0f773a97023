"""What a run of the benchmarks is asked to do."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import redis


@dataclass(frozen=True)
class Plan:
    """Settings that all benchmarks of a run share.

    Attributes:
        client: Database 0 of a server of the run's own; benchmarks empty it.
        url: That server, without a database number.
        rounds: Interleaved rounds, of which medians are shown.
        quick: Whether all of it may take two minutes at most.
        peers: Names of the environments of peers to measure.
        pools: Pools to measure.
        works: What items of drains do: "no-op", "5 ms"; () for both.
        kind: Kind of the server: "valkey" or "redis".
        accept: Whether figures become the baseline of later runs.
        folder: Place for files of the run.
    """

    client: redis.Redis
    url: str
    rounds: int = 3
    quick: bool = False
    peers: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    works: tuple[str, ...] = ()
    kind: str = ""
    accept: bool = False
    folder: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
