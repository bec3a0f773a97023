r"""Turns a call into opaque bytes and back, with Celery's own serialisers.

Layout: ``task name \n content \n headers \n message body``. ``content`` is ``j`` for JSON in
UTF-8, else ``type;encoding``; ``headers`` is a JSON object or empty; the message body is what a
Celery protocol 2 message carries: the serialised ``[args, kwargs, embed]``. Scripts never look
inside, because Lua's cjson turns an empty list into ``{}`` and loses digits of large integers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kombu.compression import compress, decompress
from kombu.exceptions import ContentDisallowed, DecodeError, EncodeError, SerializerNotInstalled
from kombu.serialization import dumps, loads, registry
from kombu.utils.json import JSONEncoder
from kombu.utils.json import dumps as kombus_json

from vtrr_queue.errors import ArgumentError, PayloadError, UndecodablePayload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

BODY_MAX = 64 * 1024 * 1024
"""Largest body, bytes; a call beyond it belongs in an object store."""

_UNFIT = (EncodeError, DecodeError, SerializerNotInstalled, KeyError, TypeError, ValueError)

_JSON = ("application/json", "utf-8")

_NO_EMBED = '{"callbacks": null, "errbacks": null, "chain": null, "chord": null}'


@dataclass(frozen=True, slots=True)
class Payload:
    """A call as it is stored.

    Attributes:
        task_name: Celery task the call is for.
        content_type: As kombu names it, ``application/json``.
        content_encoding: ``utf-8``, ``binary``.
        headers: Celery message headers that differ from the default; ``compression`` among them
            when the stored body is compressed.
        body: Serialised ``[args, kwargs, embed]``, not compressed.
    """

    task_name: str
    content_type: str
    content_encoding: str
    headers: Mapping[str, Any]
    body: bytes = field(repr=False)

    def call(self, accept: Iterable[str] | None = None) -> tuple[list[Any], dict[str, Any]]:
        """Decode the arguments.

        Args:
            accept: Content types that may be decoded; kombu's default when None.

        Returns:
            ``(args, kwargs)``.

        Raises:
            UndecodablePayload: The body is broken, or of a type that is not accepted.
        """
        try:
            args, kwargs, _ = loads(self.body, self.content_type, self.content_encoding, accept)
        except (DecodeError, ContentDisallowed, TypeError, ValueError) as exc:
            raise UndecodablePayload(exc) from exc
        if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
            raise UndecodablePayload("the arguments are no list and mapping")
        return list(args), kwargs


def encode(
    task_name: str,
    args: list[Any],
    kwargs: dict[str, Any],
    *,
    serializer: str = "json",
    embed: Mapping[str, Any] | None = None,
    headers: Mapping[str, Any] | None = None,
    argument: str = "payload",
    compression: str | None = None,
) -> bytes:
    """Serialise a call.

    Args:
        task_name: Celery task the call is for.
        args: Positional arguments.
        kwargs: Keyword arguments.
        serializer: kombu serialiser name.
        embed: Callbacks, errbacks, chain and chord as a protocol 2 message embeds them.
        headers: Message headers that differ from the default; JSON values.
        argument: How an error names the call.
        compression: kombu's name of a compression of the message body; None for none.

    Raises:
        ArgumentError: There is no such serialiser.
        PayloadError: It cannot be serialised or compressed, is larger than :data:`BODY_MAX`, or
            would not survive being read (a dict with kombu's type marker keys).
    """
    message = [args, kwargs, {"callbacks": None, "errbacks": None, "chain": None, "chord": None,
                              **(embed or {})}]  # fmt: skip
    return _encode(task_name, message, serializer, headers or {}, argument, compression)


class CallEncoder:
    """Serialises many calls of one task, each as :func:`encode` would.

    Args:
        task_name: Celery task the calls are for.
        serializer: kombu serialiser name.
        headers: Message headers of all of them that differ from the default; JSON values.
        compression: kombu's name of a compression; None for none.
    """

    def __init__(
        self, task_name: str, serializer: str = "json", headers: Mapping[str, Any] | None = None,
        compression: str | None = None,
    ) -> None:  # fmt: skip
        self._task_name, self._serializer = task_name, serializer
        self._headers, self._compression = headers or {}, compression
        self._json = None if serializer != "json" or compression else _stock_json()
        self._head = b""
        try:
            head = json.dumps(self._headers, separators=(",", ":")) if self._headers else ""
            self._head = f"{task_name}\nj\n{head}\n".encode()
        except (*_UNFIT, RecursionError):  # each call says so
            self._json = None

    def encode(self, args: list[Any], kwargs: dict[str, Any], argument: str = "payload") -> bytes:
        """Serialise a call.

        Args:
            args: Positional arguments.
            kwargs: Keyword arguments.
            argument: How an error names the call.

        Raises:
            PayloadError: As :func:`encode`.
        """
        if self._json is not None:
            try:
                named = self._json(kwargs) if kwargs else "{}"
                raw = f"[{self._json(args)}, {named}, {_NO_EMBED}]".encode()
                if b"__type__" not in raw and len(raw) <= BODY_MAX:
                    return self._head + raw
            except Exception as exc:  # noqa: BLE001 - the same again below, as kombu puts it
                _let_limits_through(exc)
        return encode(
            self._task_name, args, kwargs, serializer=self._serializer, headers=self._headers,
            argument=argument, compression=self._compression,
        )  # fmt: skip


def _stock_json() -> Callable[[Any], str] | None:
    """JSON as kombu makes it, without what it does around that; None if the app has another."""
    codec = registry._encoders.get("json")  # noqa: SLF001 - `dumps` looks there
    return JSONEncoder().encode if codec and codec.encoder is kombus_json else None


def encode_as(payload: Payload, message: Sequence[Any], headers: Mapping[str, Any]) -> bytes:
    """Serialise a changed call as it was before.

    Args:
        payload: The call as it was stored.
        message: Its ``[args, kwargs, embed]`` now.
        headers: Message headers that differ from the default.

    Raises:
        PayloadError: As :func:`encode`.
    """
    serializer = registry.type_to_name[payload.content_type]
    compression = payload.headers.get("compression")
    return _encode(payload.task_name, list(message), serializer, headers, "headers", compression)


def _encode(
    task_name: str, message: list[Any], serializer: str, headers: Mapping[str, Any],
    argument: str, compression: str | None,
) -> bytes:  # fmt: skip
    try:
        content_type, encoding, body = dumps(message, serializer=serializer)
        raw = body if isinstance(body, bytes) else body.encode("utf-8")
        if b"__type__" in raw:
            if content_type == _JSON[0]:
                _refuse_markers(message)
            loads(raw, content_type, encoding, [content_type])
        size = len(raw)
        if compression:
            raw, name = compress(raw, compression)
            headers = {**headers, "compression": name}
        head = json.dumps(headers, separators=(",", ":")) if headers else ""
    except RecursionError as exc:
        raise PayloadError(argument, "it is nested too deeply or contains itself") from exc
    except SerializerNotInstalled as exc:
        raise ArgumentError("serializer", serializer, "one that kombu knows") from exc
    except _UNFIT as exc:
        _let_limits_through(exc)
        raise PayloadError(argument, exc) from exc
    if size > BODY_MAX:
        raise PayloadError(argument, f"{size} bytes are more than {BODY_MAX}")
    content = "j" if (content_type, encoding) == _JSON else f"{content_type};{encoding}"
    return f"{task_name}\n{content}\n{head}\n".encode() + raw


def decode(stored: bytes) -> Payload:
    """Take stored bytes apart; the arguments stay serialised.

    Args:
        stored: What :func:`encode` returned.

    Raises:
        UndecodablePayload: They have another layout.
    """
    try:
        task_name, content, head, body = stored.split(b"\n", 3)
        content_type, encoding = _JSON if content == b"j" else tuple(content.decode().split(";", 1))
        headers = json.loads(head) if head else {}
        payload = Payload(task_name.decode(), content_type, encoding, headers, body)
    except (ValueError, RecursionError) as exc:
        raise UndecodablePayload(exc) from exc
    if not isinstance(headers, dict):
        raise UndecodablePayload("the headers are no mapping")
    return replace(payload, body=_plain(payload)) if "compression" in headers else payload


def _plain(payload: Payload) -> bytes:
    try:
        plain: bytes = decompress(payload.body, payload.headers["compression"])
    except Exception as exc:  # every compression has errors of its own
        raise UndecodablePayload(exc) from exc
    return plain


def _let_limits_through(error: Exception) -> None:
    """Raise a soft time limit that struck inside kombu, which wraps whatever is raised there.

    By name: billiard, whose exception it is, is not ours to import here.
    """
    for cause in (error, error.__cause__, error.__context__, *error.args):
        if isinstance(cause, Exception) and type(cause).__name__ == "SoftTimeLimitExceeded":
            raise cause from None


def _refuse_markers(message: list[Any]) -> None:
    """Refuse a dict that kombu would take for the mark of a type and read as something else."""
    todo: list[Any] = [message]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if value.keys() == {"__type__", "__value__"}:
                detail = "a dict of just '__type__' and '__value__' would come back as another type"
                raise ValueError(detail)
            todo += value.values()
        elif isinstance(value, list | tuple):
            todo += value
