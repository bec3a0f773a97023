"""``VTRRQueue``: one fair queue, tied to one Celery app and one task.

Invariant: making one neither talks to Redis nor configures the Celery app.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from celery import Celery
from celery.app.task import Task
from celery.local import Proxy
from celery.utils.log import get_logger
from kombu.serialization import prepare_accept_content

from vtrr_queue.celery import beat, entries, exporting, revoking
from vtrr_queue.celery.announcing import announce, tell
from vtrr_queue.celery.asynchronous import AsyncProducing, check_where
from vtrr_queue.celery.claims import claim
from vtrr_queue.celery.controls import Controls, check_policy
from vtrr_queue.celery.doctor import QueueInspector
from vtrr_queue.celery.entries import (
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_text,
)
from vtrr_queue.celery.options import check_options, check_order
from vtrr_queue.celery.sending import split_options
from vtrr_queue.celery.settings import (
    NAME_MAX,
    OnFailure,
    OnLeaseLost,
    check_dead_letters,
    check_hold,
    check_prefetch,
    check_reclaim,
    trigger_budget,
)
from vtrr_queue.celery.task import FairTask, VTRRTask
from vtrr_queue.celery.trigger import PUBLISH_WAIT_SECONDS, Publisher
from vtrr_queue.celery.worker import install_step
from vtrr_queue.dead import DeadLetters
from vtrr_queue.engine import Engine
from vtrr_queue.errors import ArgumentTypeError, UndecodablePayload
from vtrr_queue.payload import decode
from vtrr_queue.policy import check_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

    from vtrr_queue.celery.controls import PolicySource
    from vtrr_queue.model import (
        Durability,
        Enqueued,
        Lease,
        NewItem,
        OnDuplicate,
        ReclaimPosition,
        Wake,
    )
    from vtrr_queue.policy import Charge, Rate

logger = get_logger(__name__)


class VTRRQueue(Controls, AsyncProducing):
    """A fair queue for one Celery task.

    Args:
        redis_client: A ``redis.Redis`` on its own database index, or a ``redis.RedisCluster``; its
            settings are cloned.
        celery_app: The Celery app.
        name: Namespace of all keys, ``vtrr:{name}:*``; in a cluster with the braces.
        celery_queue: Celery queue its workers consume (``-Q``).
        max_concurrency: Most triggers in the broker at once. Workers fill up all the same,
            because each lease sends the next trigger.
        lease_seconds: How long a worker may hold an item, server clock; longer than the hard
            time limit.
        reclaim_interval: Period of a Beat entry that reclaims expired leases, s; none when None.
        reclaim_queue: Celery queue of the reclaim task; the app's default when None.
        reclaim_position: Where an expired item goes: behind its partition's backlog (``"back"``)
            or in front of it (``"front"``).
        dispatch: ``"trigger"``: a Celery message wakes a worker for each item; ``"direct"``:
            workers that consume ``celery_queue`` pull items themselves.
        prefetch: With direct dispatch, most items that a worker holds for each slot of its pool
            beside the running one, while runs take milliseconds; 0 for none.
        trigger_timeout: Age after which a trigger counts as lost and is sent again, s.
        socket_timeout: Bound on connecting to Redis and on one reply, s.
        heartbeat: Renew the lease while the function runs: True for every third of the lease, or
            the pause between two renewals, s. Then ``lease_seconds=30`` is sane and a task may
            run for any time.
        max_runtime: With a heartbeat, stop renewing a run of this age, s; None for no end.
        on_lease_lost: ``"continue"`` lets a run whose lease is gone go on (its ack is refused),
            ``"terminate"`` stops it as ``revoke(terminate=True)`` would.
        max_timeouts: Runs of an item that may be lost (killed, out of time, lease expired); the
            last of them makes it a dead letter. None for no end.
        on_failure: What an exception does with an item: ``"drop"`` it, or keep it as a dead letter
            (``"dead"``).
        max_dead_letters: Most dead letters kept; the oldest go first.
        dead_letter_seconds: Longest one is kept, s.
        charge: What an item costs its partition: its ``"weight"``, or its ``"runtime"``.
        default_share: Share of partitions that have none of their own.
        default_cap: Most items of one partition that run at once; None for any number.
        default_rate: How fast items of one partition may start: a :class:`Rate` or ``"100/m"``.
        max_in_flight: Most items of the queue that run at once.
        max_rate: How fast items of the queue may start.
        max_backlog: Most items of one partition that may wait.
        statistics: Whether its workers keep statistics, see :meth:`Inspector.statistics`.
        policy: Function of a partition, asked at each enqueue for settings (or None).

    Raises:
        ArgumentError: A value is wrong; it names the argument.
        ArgumentTypeError: A type is wrong.
    """

    _task: VTRRTask | None = None
    tells_workers = True  # of what is revoked; not while a test holds the queue

    def __init__(
        self,
        redis_client: redis.Redis | redis.RedisCluster,
        celery_app: Celery,
        *,
        name: str,
        celery_queue: str = "vtrr_queue",
        max_concurrency: int = 4,
        lease_seconds: float = 3900,
        reclaim_interval: float | None = None,
        reclaim_queue: str | None = None,
        reclaim_position: ReclaimPosition = "back",
        dispatch: str = "trigger",
        prefetch: int = 0,
        trigger_timeout: float = 60,
        socket_timeout: float = 2.0,
        heartbeat: bool | float = False,
        max_runtime: float | None = None,
        on_lease_lost: OnLeaseLost = "continue",
        max_timeouts: int | None = None,
        on_failure: OnFailure = "drop",
        max_dead_letters: int = 10_000,
        dead_letter_seconds: float = 30 * 86_400,
        charge: Charge = "weight",
        default_share: float | None = None,
        default_cap: int | None = None,
        default_rate: Rate | str | float | None = None,
        max_in_flight: int | None = None,
        max_rate: Rate | str | float | None = None,
        max_backlog: int | None = None,
        statistics: bool = True,
        policy: PolicySource | None = None,
    ) -> None:
        self.app = _real_app(celery_app)
        self.name = check_text("name", name, NAME_MAX)
        self.celery_queue = check_text("celery_queue", celery_queue, NAME_MAX)
        self.max_concurrency = check_integer("max_concurrency", max_concurrency, 1, 10_000)
        self.holding = check_hold(lease_seconds, heartbeat, max_runtime, on_lease_lost)
        self.on_failure = check_choice("on_failure", on_failure, ("drop", "dead"))
        self.reclaim_interval, self.reclaim_queue = check_reclaim(reclaim_interval, reclaim_queue)
        check_choice("reclaim_position", reclaim_position, ("back", "front"))
        self.dispatch = check_choice("dispatch", dispatch, ("trigger", "direct"))
        self.budget = trigger_budget(self.dispatch, self.max_concurrency, trigger_timeout)
        self.prefetch = check_prefetch(prefetch, self.dispatch, charge)
        self._policy_source, self._given = check_policy(policy), {}
        self.engine = Engine(
            redis_client, name, lease_seconds=self.holding.lease_seconds,
            reclaim_position=reclaim_position, wake=self.dispatch == "direct",
            socket_timeout=check_number("socket_timeout", socket_timeout, 0.01, 1e4),
            dead_letters=check_dead_letters(max_timeouts, max_dead_letters, dead_letter_seconds),
            limits=check_limits(
                charge=charge, default_share=default_share, default_cap=default_cap,
                default_rate=default_rate, max_in_flight=max_in_flight, max_rate=max_rate,
                max_backlog=max_backlog,
            ),
        )  # fmt: skip
        self.keeps_statistics = check_flag("statistics", statistics)
        self.dead = DeadLetters(self.engine, self.budget, self.send_triggers)
        self._publisher = Publisher(self)
        self._install()

    @property
    def charges_runtime(self) -> bool:
        """Whether an item costs its partition what its run takes."""
        return self.engine.limits.get("charge") == "runtime"

    @property
    def lease_seconds(self) -> float:
        """How long a worker may hold an item without a heartbeat, s."""
        return self.holding.lease_seconds

    @property
    def trigger_name(self) -> str:
        """Celery's name of the task whose messages are triggers."""
        return f"vtrr_queue.trigger.{self.name}"

    @property
    def reclaim_name(self) -> str:
        """Celery's name of the task that Beat sends."""
        return f"vtrr_queue.reclaim.{self.name}"

    def task(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Turn a function into the task of this queue; use it bare or with options.

        Args:
            function: The function; it gets the Celery task as first argument.
            **options: See :data:`~vtrr_queue.celery.options.TASK_OPTIONS`.

        Returns:
            A :class:`VTRRTask`, or a decorator when options are given.

        Raises:
            TypeError: An option is not allowed; it names the option and lists the allowed ones.
            ArgumentError: A value is out of range, the queue has another task, or the lease is not
                longer than the hard time limit.
        """
        options.pop("bind", None)
        check_options(options)
        if function is None:
            return lambda fun: self._define(fun, options)
        return self._define(function, options)

    def enqueue(
        self, task: VTRRTask, partition_key: str, tasks: Sequence[dict[str, Any]],
        on_duplicate: OnDuplicate, durability: Durability | None = None,
    ) -> list[str]:  # fmt: skip
        """Check, serialise and store entries; see :meth:`VTRRTask.queue`."""
        check_where(partition_key, on_duplicate)
        celery_task = task.celery_task
        items = entries.read_entries(tasks, task.name, *celery_task.encoding())
        if self.app.conf.task_always_eager:
            for item, entry in zip(items, tasks, strict=True):
                celery_task.apply(
                    entry.get("args"), entry.get("kwargs"), task_id=item.item_id,
                    partition_key=partition_key,
                )  # fmt: skip
        elif items:
            self.store(partition_key, items, on_duplicate, durability)
        return [item.item_id for item in items]

    def store(
        self, partition: str, items: Sequence[NewItem], on_duplicate: OnDuplicate = "skip",
        durability: Durability | None = None,
    ) -> Enqueued:  # fmt: skip
        """Store checked items, then send the triggers they need."""
        items, stored = announce(self, items)
        steps = self._storing(partition, items, on_duplicate, durability)
        enqueued, late = self.engine.client.run(steps)
        self._publisher.send(enqueued.wake.triggers, PUBLISH_WAIT_SECONDS)
        tell(stored)
        if late is not None:
            raise late
        return enqueued

    def send_triggers(self, wake: Wake) -> None:
        """Publish what a script asked for, without waiting for the broker."""
        self._publisher.send(wake.triggers, 0)

    def ack(self, item_id: str, token: str) -> bool:
        """Finish an item taken with :meth:`_dequeue`.

        Args:
            item_id: The item.
            token: Token of its lease.

        Returns:
            False when that lease is no longer held; then nothing was changed.
        """
        entries.check_text("item_id", item_id, entries.ID_MAX)
        entries.check_text("token", token, NAME_MAX)
        settled = self.engine.ack(item_id, token, budget=self.budget)
        self.send_triggers(settled.wake)
        return settled.held

    def reclaim(self) -> int:
        """Put expired leases back; how many there were."""
        return self.engine.reclaim().count

    def reclaim_and_dispatch(self) -> int:
        """Put expired leases back and send the triggers that waiting items lack.

        Returns:
            How many leases had expired.

        Source:
            ``scripts/reclaim.lua``; one call when nothing has expired and nothing waits.
        """
        reclaimed = self.engine.reclaim(budget=self.budget)
        self._publisher.send(reclaimed.wake.triggers, PUBLISH_WAIT_SECONDS)
        return reclaimed.count

    def reclaim_beat_schedule(self) -> dict[str, dict[str, Any]]:
        """The Beat entry of the periodic reclaim, for apps that assign ``beat_schedule`` whole.

        Returns:
            A mapping with one entry; empty without ``reclaim_interval``.
        """
        return beat.reclaim_entry(self) if self.reclaim_interval else {}

    def _dequeue(self) -> tuple[str, list[Any], dict[str, Any], str, str, int] | None:
        """Lease the next item for a loop of one's own.

        Returns:
            ``(task_name, args, kwargs, item_id, token, timeouts)``, or None when nothing is
            servable. An item that cannot be decoded becomes a dead letter and the next is taken.
        """
        while True:
            leased = self.engine.lease(holder="dequeue", budget=self.budget)
            self.send_triggers(leased.wake)
            if not leased.items:
                return None
            lease = leased.items[0]
            try:
                payload = decode(lease.body)
                args, kwargs = payload.call(prepare_accept_content(self.app.conf.accept_content))
            except UndecodablePayload as exc:
                self.bury(lease, str(exc))
                continue
            return payload.task_name, args, kwargs, lease.item_id, lease.token, lease.timeouts

    def bury(self, lease: Lease, reason: str, exception: str = "", traceback: str = "") -> bool:
        """Move a leased item to the dead letters and log it as an error.

        Returns:
            False when that lease is no longer held; then nothing was changed.
        """
        details = {"exception": exception, "traceback": traceback}
        settled = self.engine.bury(
            lease.item_id, lease.token, reason, budget=self.budget, **details
        )
        if settled.dead:
            self.died(lease.item_id, f"{reason}: {exception}" if exception else reason)
        self.send_triggers(settled.wake)
        return settled.held

    def died(self, item_id: str, reason: str) -> None:
        """Log that an item is a dead letter now."""
        logger.error("item %s of queue %r is a dead letter: %s", item_id, self.name, reason)

    @property
    def inspector(self) -> QueueInspector:
        """Views on this queue: depth, partitions, leases, audit, and the doctor."""
        return QueueInspector(self)

    @property
    def task_name(self) -> str | None:
        """Name of the one task of this queue, None before it is decorated."""
        return self._task.name if self._task else None

    def _define(self, function: Callable[..., Any], options: dict[str, Any]) -> VTRRTask:
        if not (callable(function) and hasattr(function, "__name__")):
            raise ArgumentTypeError("function", function, "a function")
        name = self.app.gen_task_name(function.__name__, function.__module__)
        base = options.get("base") or self.app.Task
        limits = ("soft_time_limit", "time_limit")
        soft, hard = (options.get(limit, getattr(base, limit, None)) for limit in limits)
        check_order(self.name, soft, hard, self.holding)
        tasks = claim(self.app, self.name, name)
        rule, options = split_options(options)
        ours = {"abstract": True, "vtrr_queue": self, "vtrr_partitions": rule}
        fair = type(base.__name__, (FairTask, base), ours)
        # Late acknowledgement is Celery's own word for "done when it is done": the lease decides.
        settings = {"reject_on_worker_lost": True, **options, "acks_late": True, "base": fair}
        proxy = self.app.task(bind=True, name=name, shared=False, **settings)(function)
        self._task = tasks[self.name] = VTRRTask(self, name, function, proxy)
        return self._task

    def _install(self) -> None:
        queues = cast("dict[str, VTRRQueue]", self.app.__dict__.setdefault("vtrr_queues", {}))
        queues[self.name] = self
        install_step(self.app)
        exporting.install(self.app)
        revoking.install(self.app)
        trigger = type("Trigger", (Task,), {
            "abstract": True,
            "Strategy": "vtrr_queue.celery.trigger:strategy",
            "vtrr_queue_name": self.name,
        })  # fmt: skip
        self.app.task(name=self.trigger_name, base=trigger, ignore_result=True, shared=False)(
            _never_runs
        )
        if self.reclaim_interval:
            beat.install_reclaim(self)


def _never_runs() -> None:
    """Body of the trigger task; its strategy turns every message into a permit instead."""


def _real_app(app: object) -> Celery:
    if not isinstance(app, Celery):
        raise ArgumentTypeError("celery_app", app, "a Celery app")
    if isinstance(app, Proxy):  # `current_app` may stand for another app later
        return cast("Celery", app._get_current_object())  # noqa: SLF001 - Celery's only way
    return app
