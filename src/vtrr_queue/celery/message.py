"""Builds the message plain Celery would have received, from a leased item.

Source: Celery message protocol 2 (headers ``task``, ``id``, ``retries``, ...; body
``[args, kwargs, embed]``). Additional headers become attributes of ``self.request``.
"""

from __future__ import annotations

import os
import socket
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from celery.exceptions import InvalidTaskError
from celery.utils.saferepr import saferepr
from kombu.exceptions import ContentDisallowed, DecodeError
from kombu.serialization import loads

from vtrr_queue.errors import UndecodablePayload
from vtrr_queue.payload import decode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.model import Lease
    from vtrr_queue.payload import Payload

REPR_MAX = 1024
"""Longest text of arguments in logs and events, as Celery's own default."""

_ORIGIN = f"vtrr@{socket.gethostname()}"


UNREADABLE = (UndecodablePayload, InvalidTaskError, DecodeError, ContentDisallowed, KeyError,
              TypeError, ValueError)  # fmt: skip
"""What reading an item, or making a request of it, may raise."""


class Receiver(Protocol):
    """What is told of the runs of items."""

    @property
    def vtrr(self) -> VTRRQueue:
        """Their queue."""


def read_message(lease: Lease, feed: Receiver, accept: Iterable[str]) -> ItemMessage:
    """The message of a leased item.

    Args:
        lease: The lease.
        feed: Told when the run starts and how it ends.
        accept: Content types the app accepts.

    Raises:
        UndecodablePayload: Its record cannot be read; see :data:`UNREADABLE` for more.
        InvalidTaskError: It is an item of another task.
    """
    payload, name = decode(lease.body), feed.vtrr.task_name
    if payload.task_name != name:
        why = f"task {payload.task_name!r} is not the task of this queue ({name!r})"
        raise InvalidTaskError(why)
    return ItemMessage(lease, payload, accept, feed)


def default_headers(
    task_name: str, item_id: str, args: Any, kwargs: Any, retries: int = 0
) -> dict[str, Any]:
    """Headers of a Celery message of protocol 2, as an item has them that says nothing else."""
    return {
        "lang": "py",
        "task": task_name,
        "id": item_id,
        "shadow": None,
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": retries,
        "timelimit": [None, None],
        "root_id": item_id,
        "parent_id": None,
        # A tuple, as `delay` makes one for Celery: in the store it is a JSON list.
        "argsrepr": saferepr(tuple(args), REPR_MAX),
        "kwargsrepr": saferepr(kwargs, REPR_MAX) if kwargs else "{}",
        "origin": f"{os.getpid()}@{_ORIGIN}",
        "ignore_result": None,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }


class ItemMessage:
    """A leased item in the shape of a kombu message.

    Args:
        lease: The lease.
        payload: Its decoded record.
        accept: Content types the app accepts.
        feed: Told when the run starts and how it ends.
    """

    def __init__(
        self, lease: Lease, payload: Payload, accept: Iterable[str], feed: Receiver
    ) -> None:
        self.lease, self.feed = lease, feed
        self.body, self.content_type = payload.body, payload.content_type
        self.content_encoding = payload.content_encoding
        self.properties: dict[str, Any] = {"correlation_id": lease.item_id, "priority": None}
        self.properties["reply_to"] = payload.headers.get("reply_to")
        self.delivery_info = {
            "exchange": "",
            "routing_key": feed.vtrr.celery_queue,
            "redelivered": lease.timeouts > 0,
        }
        self._accept = accept
        args, kwargs = self.payload[0], self.payload[1]
        defaults = default_headers(payload.task_name, lease.item_id, args, kwargs, lease.retries)
        self.headers: dict[str, Any] = {
            **defaults,
            **payload.headers,
            "vtrr_timeouts": lease.timeouts,
            "vtrr_partition": lease.partition,
            "vtrr_item_id": lease.item_id,
            "vtrr_token": lease.token,
        }

    @cached_property
    def payload(self) -> Any:
        """Decoded ``[args, kwargs, embed]``."""
        return loads(self.body, self.content_type, self.content_encoding, self._accept)
