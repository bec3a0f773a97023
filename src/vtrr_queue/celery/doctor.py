"""Looks for settings of the app and of its workers that put a queue at risk.

Invariant: nothing is changed, and a broker that is away costs seconds and is a finding itself.
"""

from __future__ import annotations

import itertools
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

VISIBILITY_SECONDS = {"redis": 3600.0, "sqs": 1800.0}
"""Transport -> its visibility timeout when the app sets none, s (kombu)."""

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
        found = super().doctor()
        found += [*_app(self._vtrr), *_visibility(self._vtrr), *_workers(self._vtrr)]
        return worst_first(found)


def _limits(vtrr: VTRRQueue) -> tuple[float | None, float | None]:
    """Soft and hard limit of the task, else of the app."""
    conf, name = vtrr.app.conf, vtrr.task_name
    task = vtrr.app.tasks[name] if name else None
    soft, hard = getattr(task, "soft_time_limit", None), getattr(task, "time_limit", None)
    return soft or conf.task_soft_time_limit, hard or conf.task_time_limit


def _app(vtrr: VTRRQueue) -> Iterator[Finding]:
    soft, hard = _limits(vtrr)
    if vtrr.app.conf.task_always_eager:
        yield Finding(
            "eager", "warning", "task_always_eager is on",
            "items run inside the caller: no queue, no fairness, no lease",
            "leave it to tests",
        )  # fmt: skip
    yield from _order(vtrr, "the task's limits", soft, hard)
    if hard is None and vtrr.hold.heartbeat_seconds is None:
        yield Finding(
            "no-limit", "warning", "the task has no time_limit and the queue no heartbeat",
            f"an item that runs for more than lease_seconds ({vtrr.lease_seconds:g}) runs a "
            "second time beside itself",
            "set heartbeat=True, or a time_limit below lease_seconds",
        )  # fmt: skip


def _order(vtrr: VTRRQueue, whose: str, soft: Any, hard: Any) -> Iterator[Finding]:
    limits = {"soft": soft, "hard": hard, "lease": vtrr.hold.longest_run}
    given = [value for value in limits.values() if value is not None]
    if any(a >= b for a, b in itertools.pairwise(given)):
        shown = ", ".join(f"{name} {value}" for name, value in limits.items() if value is not None)
        yield Finding(
            "limit-order", "error", f"{whose} are out of order: {shown}",
            "an item may run a second time while the first run goes on, or dies without a warning",
            "keep soft_time_limit < time_limit < lease_seconds (or max_runtime with a heartbeat)",
        )  # fmt: skip


def _visibility(vtrr: VTRRQueue) -> Iterator[Finding]:
    app = vtrr.app
    transport = app.connection_for_write().transport.driver_type
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


def _workers(vtrr: VTRRQueue) -> Iterator[Finding]:
    try:
        with vtrr.app.connection_for_write(connect_timeout=BROKER_SECONDS) as connection:
            if connection.transport.driver_type == "redis":
                connection.transport_options.setdefault("socket_timeout", BROKER_SECONDS)
                connection.transport_options.setdefault("socket_connect_timeout", BROKER_SECONDS)
            connection.ensure_connection(max_retries=1, timeout=BROKER_SECONDS)
            ask = vtrr.app.control.inspect(timeout=REPLY_SECONDS, connection=connection)
            consumed = ask.active_queues() or {}
            stats = (ask.stats() if consumed else None) or {}
    except Exception as exc:  # noqa: BLE001 - any transport has errors of its own
        yield Finding(
            "broker-unreachable", "error", f"the broker does not answer: {exc!r}",
            "workers that need triggers get none, and the workers could not be examined",
            "start it, or correct broker_url",
        )  # fmt: skip
        return
    mine = [
        worker for worker, queues in consumed.items()
        if any(queue["name"] == vtrr.celery_queue for queue in queues)
    ]  # fmt: skip
    if not mine:
        yield Finding(
            "no-worker", "warning", f"no worker that answers consumes {vtrr.celery_queue!r}",
            "items wait",
            f"celery worker -Q {vtrr.celery_queue}",
        )  # fmt: skip
    for worker in sorted(mine):
        yield from _worker(vtrr, worker, stats.get(worker, {}))


def _worker(vtrr: VTRRQueue, name: str, stats: dict[str, Any]) -> Iterator[Finding]:
    pool = stats.get("pool", {})
    kind = pool.get("implementation", "").partition(":")[0].rpartition(".")[2]
    yield from _pool(vtrr, name, kind)
    soft, hard = (*(pool.get("timeouts") or ()), None, None)[:2]
    yield from _order(vtrr, f"the limits of {name}", soft or None, hard or None)
    slots, prefetch = pool.get("max-concurrency") or 0, stats.get("prefetch_count") or 0
    if vtrr.dispatch == "trigger" and slots and prefetch > slots:
        yield Finding(
            "prefetch", "warning",
            f"{name} has {slots} slots and reserves up to {prefetch} messages",
            "triggers lie with a busy worker while an idle one waits, up to five seconds",
            'worker_prefetch_multiplier = 1, or dispatch="direct"',
        )  # fmt: skip


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
    if kind in _NO_STOP and vtrr.hold.on_lease_lost == "terminate":
        yield Finding(
            "pool-cannot-stop", "warning",
            f"{name} runs the pool {kind!r}, which cannot stop a run (on_lease_lost='terminate')",
            "a run that has lost its lease goes on beside its rerun; its ack is refused",
            "use prefork or gevent, or ask self.request.vtrr_lease_held() in the function",
        )  # fmt: skip
