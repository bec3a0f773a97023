"""Who drains a queue in the benchmark: plain Celery, vtrr-queue, and plain queues of other makers.

Each has an app in ``apps/`` with ``fill(count)``, and commands that start as many workers as the
pool says. A peer has its own environment, made on demand from ``requirements/bench-<peer>.txt``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

APPS = Path(__file__).with_name("apps")

PREFORK, THREADS, SOLO = "prefork 2", "threads 8", "solo"
POOLS = (PREFORK, THREADS, SOLO)
CONCURRENCY = {PREFORK: 1, THREADS: 8, SOLO: 1}
"""Items that one process of a pool runs at once."""

PLAIN = "plain Celery"
"""What the others are compared with."""


@dataclass(frozen=True)
class Contender:
    """One way to run items.

    Attributes:
        name: What the tables call it.
        app: Module in ``apps/``.
        commands: Pool -> command that starts its workers, its program first; a pool that isn't
            there can't be had.
        peer: Name of its environment; "" for ours.
        variant: What the app is to do, where it can do several things.
        copies: Whether each worker of a prefork pool is a command of its own.
        part: Part of the items that it gets, as it would take too long over all of them.
    """

    name: str
    app: str
    commands: Mapping[str, str]
    peer: str = ""
    variant: str = ""
    copies: bool = False
    part: float = 1.0

    def processes(self, pool: str) -> int:
        """How often the command is started."""
        return 2 if self.copies and pool == PREFORK else 1


def _pools(prefork: str, threads: str, solo: str) -> dict[str, str]:
    return {PREFORK: prefork, THREADS: threads, SOLO: solo}


def _celery(name: str, app: str, queue: str, variant: str) -> Contender:
    base = f"celery -A {app} worker -Q {queue} -l WARNING -n bench@%h"
    base += " --without-gossip --without-mingle --without-heartbeat"
    pools = _pools(f"{base} -P prefork -c 2", f"{base} -P threads -c 8", f"{base} -P solo")
    return Contender(name, app, pools, variant=variant)


OURS = (
    _celery(PLAIN, "celery_plain", "celery", "early"),
    _celery("plain Celery, acks_late", "celery_plain", "celery", "late"),
    _celery("vtrr-queue, direct", "celery_fair", "fair", "direct"),
    _celery("vtrr-queue, direct, prefetch 8", "celery_fair", "fair", "direct 8"),
    _celery("vtrr-queue, trigger", "celery_fair", "fair", "trigger"),
)

_ARQ, _STREAQ = "arq arq_app.WorkerSettings", "streaq run streaq_app:worker"
_SIMPLE = "--worker-class rq.SimpleWorker"
_TASKIQ = "taskiq worker taskiq_app:broker --log-level WARNING"
_DRAMATIQ, _HUEY = "dramatiq dramatiq_app", "huey_consumer huey_app.huey -q"

PEERS = (
    Contender("RQ, a fork an item", "rq_app", {
        PREFORK: "rq worker-pool -q -n 2 -u {url}", SOLO: "rq worker -q -u {url}",
    }, "rq", part=0.05),
    Contender("RQ, SimpleWorker", "rq_app", {
        PREFORK: f"rq worker-pool -q -n 2 -u {{url}} {_SIMPLE}",
        SOLO: f"rq worker -q -u {{url}} {_SIMPLE}",
    }, "rq", part=0.3),
    Contender("arq", "arq_app", _pools(_ARQ, _ARQ, _ARQ), "arq", copies=True, part=0.3),
    Contender("SAQ", "saq_app", _pools(
        "saq saq_app.settings --workers 2", "saq saq_app.settings", "saq saq_app.settings",
    ), "saq"),
    Contender("streaQ", "streaq_app", _pools(f"{_STREAQ} --workers 2", _STREAQ, _STREAQ), "streaq"),
    Contender("taskiq, streams", "taskiq_app", _pools(
        f"{_TASKIQ} --workers 2 --max-async-tasks 1", f"{_TASKIQ} --workers 1 --max-async-tasks 8",
        f"{_TASKIQ} --workers 1 --max-async-tasks 1",
    ), "taskiq"),
    Contender("dramatiq", "dramatiq_app", _pools(
        f"{_DRAMATIQ} -p 2 -t 1", f"{_DRAMATIQ} -p 1 -t 8", f"{_DRAMATIQ} -p 1 -t 1",
    ), "dramatiq"),
    Contender("huey, at most once", "huey_app", _pools(
        f"{_HUEY} -k process -w 2", f"{_HUEY} -k thread -w 8", f"{_HUEY} -k thread -w 1",
    ), "huey"),
)  # fmt: skip

PEER_NAMES = tuple(dict.fromkeys(peer.peer for peer in PEERS))
