"""Sends Celery's publish signals for items, as Celery does for the messages of other tasks.

Tracing libraries listen to them and add headers, which travel with the item.

Invariants: without a receiver nothing is done; every item has a copy of the caller's context, so
that a receiver that opens a span in one signal and closes it in the next finds it, however many
items a call has.
"""

from __future__ import annotations

import copy
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from celery import signals
from kombu.entity import Queue
from kombu.serialization import loads

from vtrr_queue.celery.message import default_headers
from vtrr_queue.payload import decode, encode_as

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.model import NewItem

_OWN = ("id", "task", "lang", "retries", "eta", "origin")
"""Headers that an item has without storing them."""


def announce(
    vtrr: VTRRQueue, items: Sequence[NewItem], retries: int = 0
) -> tuple[Sequence[NewItem], Sequence[Callable[[], None]]]:
    """Send ``before_task_publish`` for items that are about to be stored.

    Args:
        vtrr: Their queue.
        items: Checked items.
        retries: Which run of theirs it will be.

    Returns:
        The items with what receivers have changed in headers and arguments, and what is to be
        called when they are stored, see :func:`tell`.

    Raises:
        PayloadError: What a receiver has added cannot be stored.
    """
    heard = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)
    if not any(signal.receivers for signal in heard):
        return items, ()
    told = [_Publication(vtrr, item, retries) for item in items]
    return [publication.before() for publication in told], [one.after for one in told]


def tell(stored: Iterable[Callable[[], None]]) -> None:
    """Send ``after_task_publish`` for stored items; for those that were known already, too."""
    for after in stored:
        after()


class _Publication:
    """One item and its two signals."""

    def __init__(self, vtrr: VTRRQueue, item: NewItem, retries: int) -> None:
        self._item, self._payload = item, decode(item.body)
        payload = self._payload
        kind, encoding = payload.content_type, payload.content_encoding
        self._body = tuple(loads(payload.body, kind, encoding, [kind]))
        args, kwargs = self._body[0], self._body[1]
        self._defaults = default_headers(payload.task_name, item.item_id, args, kwargs, retries)
        if item.delay_ms:
            moment = datetime.now(UTC) + timedelta(milliseconds=item.delay_ms)
            self._defaults["eta"] = moment.isoformat()
        self._headers = copy.deepcopy(self._defaults | dict(payload.headers))
        self._context = copy_context()
        queue = Queue(vtrr.celery_queue, routing_key=vtrr.celery_queue)
        self._where: dict[str, Any] = {"exchange": "", "routing_key": vtrr.celery_queue}
        self._how: dict[str, Any] = {
            "declare": [queue],
            "properties": {"correlation_id": item.item_id,
                           "reply_to": payload.headers.get("reply_to") or ""},
            "retry_policy": dict(vtrr.app.conf.task_publish_retry_policy),
        }  # fmt: skip

    def before(self) -> NewItem:
        """Send the first signal; the item as receivers have left it."""
        self._send(signals.before_task_publish, **self._where, **self._how)
        headers = {
            key: value
            for key, value in self._headers.items()
            if key not in _OWN and not (key in self._defaults and self._defaults[key] == value)
        }
        return replace(self._item, body=encode_as(self._payload, self._body, headers))

    def after(self) -> None:
        """Send the second one."""
        self._send(signals.after_task_publish, **self._where)
        if signals.task_sent.receivers:  # deprecated in Celery, and sent all the same
            headers, (args, kwargs, _) = self._headers, self._body
            self._context.run(
                signals.task_sent.send, sender=self._payload.task_name, task_id=headers["id"],
                task=self._payload.task_name, args=args, kwargs=kwargs, eta=headers["eta"],
                taskset=headers["group"],
            )  # fmt: skip

    def _send(self, signal: Any, **details: Any) -> None:
        self._context.run(
            signal.send, sender=self._payload.task_name, body=self._body, headers=self._headers,
            **details,
        )  # fmt: skip
