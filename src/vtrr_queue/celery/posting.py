"""Puts triggers into the broker over a connection of its own.

Invariant: to a receiver and to Celery's publish signals a trigger looks like the message of any
task; only what is the same in each of them is made once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from celery.utils.log import get_logger
from kombu.entity import Queue

if TYPE_CHECKING:
    from vtrr_queue.celery.queue import VTRRQueue

logger = get_logger(__name__)

BROKER_TIMEOUT_SECONDS = 2.0
"""Bound on one read from a Redis broker while publishing, s."""

EXPIRES_FACTOR = 10
"""A trigger expires after this many times the age at which it counts as lost."""

ALIKE_SECONDS = 1.0
"""Triggers of so short a time have one message between them, but for their ids, s."""


class Poster:
    """The messages of one queue's triggers; for one thread.

    Args:
        vtrr: The queue.
    """

    def __init__(self, vtrr: VTRRQueue) -> None:
        self._vtrr = vtrr
        self._connection: Any = None
        self._producer: Any = None
        self._message: Any = None
        self._made_at = 0.0
        self._queue: Any = None
        self._undeclared: list[Any] = []  # to declare is a copy of the queue to kombu

    def post(self, trigger_id: str) -> None:
        """Publish one trigger.

        Raises:
            Exception: Whatever the transport raises; then call :meth:`drop`.
        """
        if self._producer is None:
            self._open()
        message, vtrr = self._filled_in(trigger_id), self._vtrr
        declare, self._undeclared = self._undeclared, []
        vtrr.app.amqp.send_task_message(
            self._producer, vtrr.trigger_name, message, queue=self._queue, declare=declare,
            retry=False,
        )  # fmt: skip

    def drop(self) -> None:
        """Close the connection; the next trigger opens another."""
        connection, self._connection = self._connection, None
        self._producer = self._message = None
        try:
            if connection is not None:
                connection.close()
        except Exception as exc:  # noqa: BLE001 - it is broken, that is why it goes
            logger.debug("closing a broken broker connection: %r", exc)

    def _open(self) -> None:
        app = self._vtrr.app
        self._connection = app.connection_for_write(connect_timeout=BROKER_TIMEOUT_SECONDS)
        is_redis = self._connection.transport.driver_type == "redis"
        if is_redis:
            options = self._connection.transport_options
            options.setdefault("socket_timeout", BROKER_TIMEOUT_SECONDS)
            options.setdefault("socket_connect_timeout", BROKER_TIMEOUT_SECONDS)
        self._producer = app.amqp.Producer(self._connection, auto_declare=False)
        if is_redis:
            _lend_client(self._connection.default_channel)

    def _filled_in(self, trigger_id: str) -> Any:
        now, vtrr = time.monotonic(), self._vtrr
        if self._message is None or now - self._made_at > ALIKE_SECONDS:
            self._made_at, self._queue = now, self._known_queue()
            self._undeclared = [self._queue]
            self._message = vtrr.app.amqp.create_task_message(
                trigger_id, vtrr.trigger_name, ignore_result=True,
                expires=EXPIRES_FACTOR * vtrr.budget.timeout_ms / 1000,
            )  # fmt: skip
        pattern = self._message
        return pattern._replace(
            headers={**pattern.headers, "id": trigger_id, "root_id": trigger_id},
            properties={**pattern.properties, "correlation_id": trigger_id},
            sent_event=pattern.sent_event and {**pattern.sent_event, "uuid": trigger_id},
        )

    def _known_queue(self) -> Any:
        """The queue as the app knows it, or else with the arguments a worker declares it with."""
        amqp, name = self._vtrr.app.amqp, self._vtrr.celery_queue
        if name in amqp.queues:
            return amqp.queues[name]
        arguments = amqp.Queues([amqp.queues.new_missing(name)])[name].queue_arguments
        return Queue(name, routing_key=name, queue_arguments=arguments)


def _lend_client(channel: Any) -> None:
    """Let kombu's Redis channel use one client; it makes one for each message it sends.

    Args:
        channel: A channel that only publishes.
    """
    make = channel._create_client  # noqa: SLF001 - `conn_or_acquire` calls it each time
    client = make()

    def lend(asynchronous: bool = False) -> Any:
        return make(asynchronous=True) if asynchronous else client

    channel._create_client = lend  # noqa: SLF001
