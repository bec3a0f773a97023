"""Many small reads at once: packed here and read from the socket as they come.

A parser that builds an object for whatever a server may say takes three times as long as a hundred
thousand counts need.

Invariant: a reply is read to its end, or an error is raised and the connection must be dropped.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from redis.exceptions import ResponseError

if TYPE_CHECKING:
    from collections.abc import Iterable

ENDED = "the connection ended in a reply"

_LLEN = b"*2\r\n$4\r\nLLEN\r\n$%d\r\n%b\r\n"


def packed_lengths(names: Iterable[bytes]) -> bytes:
    """LLEN of each of these lists."""
    return b"".join([_LLEN % (len(name), name) for name in names])


def read_numbers(stream: BinaryIO, count: int) -> list[int]:
    """So many integer replies.

    Raises:
        ResponseError: The server refused a command.
        ConnectionError: The connection ended.
    """
    text = b"".join(islice(stream, count))
    if b"-" in text:
        for line in text.splitlines(keepends=True):
            _checked(line)
    if count and not (text.endswith(b"\n") and text.count(b"\n") == count):
        raise ConnectionError(ENDED)
    return list(map(int, text.replace(b":", b"").split()))


def read_texts(stream: BinaryIO) -> list[bytes]:
    """One reply that is a list of texts.

    Raises:
        ResponseError: The server refused the command.
        ConnectionError: The connection ended.
    """
    count = int(_checked(stream.readline())[1:])
    readline, read = stream.readline, stream.read
    texts = [read(int(readline()[1:] or 0) + 2) for _ in range(count)]
    if count and texts[-1][-2:] != b"\r\n":
        raise ConnectionError(ENDED)
    return [text[:-2] for text in texts]


def read_scan(stream: BinaryIO) -> tuple[bytes, list[bytes]]:
    """One reply of HSCAN: the next cursor, and fields and values in turn.

    Raises:
        ResponseError: The server refused the command.
        ConnectionError: The connection ended.
    """
    _checked(stream.readline())
    cursor = stream.read(int(_checked(stream.readline())[1:]) + 2)[:-2]
    return cursor, read_texts(stream)


def _checked(line: bytes) -> bytes:
    if line[:1] == b"-":
        raise ResponseError(line[1:-2].decode("utf-8", "replace"))
    if line[-1:] != b"\n":
        raise ConnectionError(ENDED)
    return line
