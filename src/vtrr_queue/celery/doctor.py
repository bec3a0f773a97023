"""Looks for settings of the app and of its workers that put a queue at risk.

Invariant: nothing is changed, and a broker that is away costs seconds and is a finding itself.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from vtrr_queue.doctor import Finding, worst_first
from vtrr_queue.inspector import Inspector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtrr_queue.celery.queue import VTRRQueue

BROKER_SECONDS = 2.0
"""Longest wait for the broker, s."""

REPLY_SECONDS = 1.0
"""How long workers are waited for, s."""

KNOWN_REPLY_SECONDS = 3.0
"""Longest wait for workers that are known to be there: a busy one answers once a second."""

VISIBILITY_SECONDS = {"redis": 3600.0, "sqs": 1800.0}
"""Transport -> its visibility timeout when the app sets none, s (kombu)."""

Limits = tuple[float | None, float | None]
"""Soft and hard, s."""

_NO_LIMITS = ("thread", "solo", "eventlet")
_NO_SOFT_LIMIT = ("gevent", *_NO_LIMITS)
_NO_STOP = ("thread", "solo")


class QueueInspector(Inspector):
    """Views on a queue of a Celery app.

    Args:
        vtrr: The queue.
    """

    def __init__(self, vtrr: VTRRQueue) -> None:
        super().__init__(vtrr.engine)
        self._vtrr = vtrr

    def doctor(self) -> list[Finding]:
        """Look at the server, the app and the workers that answer within a second.

        Returns:
            Findings, worst first; empty when all is well.

        Source:
            docs/doctor.md lists all of them.
        """
        found, vtrr = super().doctor(), self._vtrr
        asked = _ask(vtrr)
        found += [*_app(vtrr), *_no_limit(vtrr, asked), *_visibility(vtrr, asked.transport)]
        found += [*_reached(vtrr, asked)]
        for name in sorted(asked.workers):
            found += [*_worker(vtrr, name, asked.workers[name])]
        return worst_first(found)


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking the workers.

    Attributes:
        transport: Kind of the broker, as kombu calls it; empty when kombu cannot load it.
        workers: Worker -> its statistics, of those that consume the queue's ``celery_queue``.
        free: Those of them that fetch messages for free slots only, whatever their prefetch count.
        failure: Why nobody could be asked.
    """

    transport: str = ""
    workers: dict[str, dict[str, Any]] = field(default_factory=dict)
    free: frozenset[str] = frozenset()
    failure: Exception | None = None


def _ask(vtrr: VTRRQueue) -> Asked:
    kind = ""
    try:
        with vtrr.app.connection_for_write(connect_timeout=BROKER_SECONDS) as connection:
            kind = connection.transport.driver_type
            if kind == "redis":
                connection.transport_options.setdefault("socket_timeout", BROKER_SECONDS)
                connection.transport_options.setdefault("socket_connect_timeout", BROKER_SECONDS)
            connection.ensure_connection(max_retries=1, timeout=BROKER_SECONDS)
            ask = partial(vtrr.app.control.inspect, connection=connection)
            consumed = ask(timeout=REPLY_SECONDS).active_queues() or {}
            mine = {
                worker for worker, queues in consumed.items()
                if any(queue["name"] == vtrr.celery_queue for queue in queues)
            }  # fmt: skip
            known = ask(sorted(mine), timeout=KNOWN_REPLY_SECONDS)  # ends with the last reply
            stats = (known.stats() if mine else None) or {}
            workers = {name: stats.get(name, {}) for name in mine}
            parking = any(_reserves(each) is not None for each in workers.values())
            ask_more = parking and kind == "redis" and vtrr.dispatch == "trigger"
            conf = (known.conf() if ask_more else None) or {}
    except Exception as exc:  # noqa: BLE001 - any transport has errors of its own
        return Asked(kind, failure=exc)
    free = frozenset(name for name in conf if conf[name].get("worker_disable_prefetch"))
    return Asked(kind, workers, free)


def _reserves(stats: dict[str, Any]) -> str | None:
    """How many messages a worker fetches when that is more than it has slots; else None."""
    slots, count = stats.get("pool", {}).get("max-concurrency"), stats.get("prefetch_count")
    if not slots or count is None or 0 < count <= slots:
        return None
    return str(count or "any number of")


def _limits(vtrr: VTRRQueue, pool: dict[str, Any] | None = None) -> Limits:
    """Soft and hard limit of an item: the task's own, else the worker's, else the app's.

    Newer releases of Celery copy the app's limits to its tasks, where they beat the worker's.
    """
    conf, name = vtrr.app.conf, vtrr.task_name
    task = vtrr.app.tasks[name] if name else None
    soft, hard = (pool or {}).get("timeouts") or (
        conf.task_soft_time_limit, conf.task_time_limit
    )  # fmt: skip
    return (
        getattr(task, "soft_time_limit", None) or soft or None,
        getattr(task, "time_limit", None) or hard or None,
    )


def _app(vtrr: VTRRQueue) -> Iterator[Finding]:
    if vtrr.app.conf.task_always_eager:
        yield Finding(
            "eager", "warning", "task_always_eager is on",
            "items run inside the caller: no queue, no fairness, no lease",
            "leave it to tests",
        )  # fmt: skip
    yield from _order(vtrr, "the task's limits", *_limits(vtrr))


def _no_limit(vtrr: VTRRQueue, asked: Asked) -> Iterator[Finding]:
    pools = [stats.get("pool") for stats in asked.workers.values()] or [None]
    if vtrr.holding.heartbeat_seconds is None and not all(_limits(vtrr, each)[1] for each in pools):
        yield Finding(
            "no-limit", "warning", "the task has no time_limit and the queue no heartbeat",
            f"an item that runs for more than lease_seconds ({vtrr.lease_seconds:g}) runs a "
            "second time beside itself",
            "set heartbeat=True, or a time_limit below lease_seconds",
        )  # fmt: skip


def _order(
    vtrr: VTRRQueue, whose: str, soft: float | None, hard: float | None
) -> Iterator[Finding]:
    limits = {"soft": soft, "hard": hard, "lease": vtrr.holding.longest_run}
    given = [value for value in limits.values() if value is not None]
    if any(a >= b for a, b in itertools.pairwise(given)):
        shown = ", ".join(f"{name} {value}" for name, value in limits.items() if value is not None)
        yield Finding(
            "limit-order", "error", f"{whose} are out of order: {shown}",
            "an item may run a second time while the first run goes on, or dies without a warning",
            "keep soft_time_limit < time_limit < lease_seconds (or max_runtime with a heartbeat)",
        )  # fmt: skip


def _visibility(vtrr: VTRRQueue, transport: str) -> Iterator[Finding]:
    app = vtrr.app
    if transport not in VISIBILITY_SECONDS:
        return
    given = app.conf.broker_transport_options.get("visibility_timeout")
    timeout = VISIBILITY_SECONDS[transport] if given is None else given
    late = {
        name: task.time_limit or app.conf.task_time_limit
        for name, task in app.tasks.items()
        if task.acks_late and not hasattr(task, "vtrr_queue")
    }
    longest = {name: limit for name, limit in late.items() if limit and limit > timeout}
    if longest:
        name = max(longest, key=lambda each: longest[each])
        yield Finding(
            "visibility-timeout", "warning",
            f"visibility_timeout is {timeout:g} s, and {name} with acks_late may run for "
            f"{longest[name]:g} s",
            "the broker delivers a plain task again while it still runs",
            "raise broker_transport_options['visibility_timeout'] above the longest time_limit",
        )  # fmt: skip


def _reached(vtrr: VTRRQueue, asked: Asked) -> Iterator[Finding]:
    if asked.failure is not None:
        yield Finding(
            "broker-unreachable", "error", f"the broker does not answer: {asked.failure!r}",
            "workers that need triggers get none, and the workers could not be examined",
            "start it, or correct broker_url",
        )  # fmt: skip
    elif not asked.workers:
        yield Finding(
            "no-worker", "warning", f"no worker that answers consumes {vtrr.celery_queue!r}",
            "items wait",
            f"celery worker -Q {vtrr.celery_queue}",
        )  # fmt: skip
    for name in sorted(asked.workers.keys() - asked.free):
        reserves = _reserves(asked.workers[name])
        if reserves is not None and vtrr.dispatch == "trigger":
            yield Finding(
                "prefetch", "warning",
                f"{name} reserves up to {reserves} messages, more than it has slots",
                "triggers lie with a busy worker while an idle one waits, up to five seconds",
                'worker_prefetch_multiplier = 1, or dispatch="direct"',
            )  # fmt: skip


def _worker(vtrr: VTRRQueue, name: str, stats: dict[str, Any]) -> Iterator[Finding]:
    pool = stats.get("pool", {})
    kind = pool.get("implementation", "").partition(":")[0].rpartition(".")[2]
    limits = _limits(vtrr, pool)
    if limits != _limits(vtrr):
        yield from _order(vtrr, f"the limits of {name}", *limits)
    yield from _pool(vtrr, name, kind)


def _pool(vtrr: VTRRQueue, name: str, kind: str) -> Iterator[Finding]:
    soft, hard = _limits(vtrr)
    ignored = [
        limit for limit, given, pools in (("soft_time_limit", soft, _NO_SOFT_LIMIT),
                                          ("time_limit", hard, _NO_LIMITS))
        if given is not None and kind in pools
    ]  # fmt: skip
    if ignored:
        yield Finding(
            "pool-ignores-limits", "warning",
            f"{name} runs the pool {kind!r}, which ignores {' and '.join(ignored)}",
            "a hung function holds its slot for ever",
            "use prefork, or heartbeat=True with max_runtime so that at least the item goes on",
        )  # fmt: skip
    if kind in _NO_STOP and vtrr.holding.on_lease_lost == "terminate":
        yield Finding(
            "pool-cannot-stop", "warning",
            f"{name} runs the pool {kind!r}, which cannot stop a run (on_lease_lost='terminate')",
            "a run that has lost its lease goes on beside its rerun; its ack is refused",
            "use prefork or gevent, or ask self.request.vtrr_lease_held() in the function",
        )  # fmt: skip
