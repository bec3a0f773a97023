"""Takes revoked items out of Redis: in the worker that hears of a revoke, else in the caller.

Celery's workers only remember a revoked id and drop its message when it comes. An item may wait
for long, in Redis, and be served by a worker that was started later.

Invariant: whoever takes an item out tells of it, once: result, chord, event and signal, as Celery
does for a message that it drops.
"""

from __future__ import annotations

import functools
import os
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from celery.app.control import Control
from celery.utils.log import get_logger
from celery.worker.request import Request
from kombu.exceptions import OperationalError
from kombu.serialization import prepare_accept_content
from kombu.utils.functional import maybe_list

from vtrr_queue.celery.message import UNREADABLE, read_message
from vtrr_queue.errors import VTRRError
from vtrr_queue.records import pack_id, read_lease

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from celery import Celery

    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.model import Lease

logger = get_logger(__name__)

_HOST = socket.gethostname()

ANSWER_SECONDS = 1.0
"""Longest wait of a caller that revokes items for a worker that does it, s."""

AT_ONCE = 500
"""Most items that one call to Redis reads or cancels."""


def revoke_items(app: Celery, ids: Sequence[str], eventer: Any = None) -> list[str]:
    """Cancel items: what waits goes and its result is REVOKED, what runs does not run again.

    Args:
        app: The app whose queues they may be in.
        ids: Ids of items and of plain tasks.
        eventer: Celery's event dispatcher; None tells no events.

    Returns:
        The items that waited.
    """
    gone: list[str] = []
    for vtrr in _queues(app):
        if vtrr.task_name is None:
            continue
        for some in (ids[at : at + AT_ONCE] for at in range(0, len(ids), AT_ONCE)):
            try:
                found = _read(vtrr, some)
                waited = vtrr.engine.cancel(list(found)).waiting if found else ()
            except VTRRError as exc:
                logger.warning("revoked items of queue %r are dropped when their turn comes: %s",
                               vtrr.name, exc)  # fmt: skip
                continue
            for item_id in waited:
                _tell(vtrr, found[item_id], eventer)
            gone += waited
    return gone


def listen() -> None:
    """Let workers take out what they are told to revoke, once Celery has done its part."""
    from celery.worker.control import Panel  # noqa: PLC0415 - workers only

    for name in ("revoke", "terminate"):
        if not hasattr(Panel.data[name], "vtrr_items"):
            Panel.data[name] = _also_items(Panel.data[name])


def install(app: Celery) -> None:
    """Let ``app.control.revoke`` and ``AsyncResult.revoke`` reach items that no worker sees."""
    theirs: Any = app.control_cls
    if isinstance(theirs, type) and issubclass(theirs, RevokesItems):
        return
    if theirs == type(app).control_cls and isinstance(theirs, str):
        app.control_cls = ItemControl
    elif isinstance(theirs, type):
        app.control_cls = type(theirs.__name__, (RevokesItems, theirs), {})
    app.__dict__.pop("control", None)  # made anew when it is next asked for


class RevokesItems:
    """What stands before Celery's or the app's own ``Control``."""

    app: Any

    def revoke(self, task_id: Any, *args: Any, **kwargs: Any) -> Any:
        """As Celery's; it returns when items that waited are out, by a worker if there is one.

        Items of a queue that a test holds are taken out here, and nobody is told.

        Raises:
            OperationalError: The broker did not answer in about a second, and an id is none of an
                item that waited: that of a running one, or of a plain task.
        """
        ids = [str(each) for each in maybe_list(task_id) or []]
        wanted = bool(kwargs.get("reply"))
        held = _known(self.app, ids, held=True)
        revoke_items(self.app, held)
        if held:
            ids = [each for each in ids if each not in set(held)]
            task_id = ids
        items = _known(self.app, ids)
        if items and not wanted:
            kwargs |= {"reply": True, "limit": 1, "timeout": ANSWER_SECONDS}
        told: Any = []
        if ids or not held:
            with _reaching(self, items, ids) as connection:
                if connection is not None:
                    kwargs.setdefault("connection", connection)
                told = super().revoke(task_id, *args, **kwargs)  # type: ignore[misc]
        return told if wanted or not (items or held) else None


class ItemControl(RevokesItems, Control):
    """Celery's ``Control`` for an app with fair queues."""


@contextmanager
def _reaching(control: RevokesItems, items: list[str], ids: list[str]) -> Iterator[Any]:
    """A connection to tell the workers over, within a bound; then what waited is out anyway."""
    app: Any = control.app
    is_held = any(not vtrr.tells_workers for vtrr in _queues(app))
    if not items and not is_held:
        yield None  # Celery's own, as ever
        return
    try:
        with _open_soon(app) as connection:
            yield connection
    except OperationalError as exc:
        gone = revoke_items(app, items)
        if not is_held and set(ids) - set(gone):
            raise
        logger.warning("revoke: no worker was told, the broker did not answer: %s", exc)
    except BaseException:
        revoke_items(app, items)
        raise
    else:
        revoke_items(app, items)


def _open_soon(app: Any) -> Any:
    """A connection to the broker that gives up in about a second."""
    connection = app.connection_for_write(connect_timeout=ANSWER_SECONDS)
    options = connection.transport_options
    options.setdefault("max_retries", 0)
    if connection.transport.driver_type == "redis":
        options.setdefault("socket_timeout", ANSWER_SECONDS)
        options.setdefault("socket_connect_timeout", ANSWER_SECONDS)
    return connection


def _queues(app: Celery) -> list[VTRRQueue]:
    queues: dict[str, VTRRQueue] = app.__dict__.get("vtrr_queues", {})
    return list(queues.values())


def _known(app: Celery, ids: list[str], *, held: bool = False) -> list[str]:
    """Ids of items that wait or run, of the queues that a test holds or of the others."""
    known: list[str] = []
    for vtrr in _queues(app):
        if vtrr.tells_workers is held:
            continue
        try:
            known += vtrr.engine.known(ids)
        except VTRRError as exc:  # the workers may reach it
            logger.warning("revoke: queue %r not asked: %s", vtrr.name, exc)
    return known


def _also_items(command: Any) -> Any:
    @functools.wraps(command)
    def revoke(state: Any, *args: Any, **kwargs: Any) -> Any:
        done = command(state, *args, **kwargs)
        ids = [str(each) for each in maybe_list(kwargs.get("task_id")) or []]
        if ids and state.consumer is not None:
            revoke_items(state.app, ids, state.consumer.event_dispatcher)
        return done

    revoke.vtrr_items = True  # type: ignore[attr-defined]
    return revoke


def _read(vtrr: VTRRQueue, ids: Sequence[str]) -> dict[str, Lease]:
    """What is stored of items, as if it were leased."""
    engine = vtrr.engine
    (texts,) = engine.client.read(("HMGET", engine.keys["task"], *map(pack_id, ids)))
    found = {}
    for item_id, text in zip(ids, texts, strict=True):
        if text is not None:
            found[item_id] = read_lease(pack_id(item_id), "", 0, text)
    return found


def _tell(vtrr: VTRRQueue, lease: Lease, eventer: Any) -> None:
    app: Any = vtrr.app
    task = app.tasks[vtrr.task_name]
    logger.info("item %s[%s] is revoked", task.name, lease.item_id)
    try:
        message = read_message(
            lease, _Nobody(vtrr), prepare_accept_content(app.conf.accept_content)
        )
        request = Request(
            message, on_ack=_ignore, on_reject=_ignore, hostname=f"{os.getpid()}@{_HOST}",
            eventer=eventer, app=app, task=task, connection_errors=(), body=message.body,
            headers=message.headers, decoded=False, utc=True,
        )  # fmt: skip
        request._announce_revoked("revoked", False, None, False)  # noqa: SLF001 - Celery's own way
    except UNREADABLE as exc:  # nobody can say more of it
        logger.warning("revoked item %s[%s] cannot be read: %s", task.name, lease.item_id, exc)
        task.backend.mark_as_revoked(lease.item_id, "revoked", store_result=True)


@dataclass(frozen=True)
class _Nobody:
    """The receiver of a message that does not run."""

    vtrr: VTRRQueue


def _ignore(*_: Any, **__: Any) -> None:
    """There is no message to acknowledge."""
