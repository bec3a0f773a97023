"""Commands as the server reads them (RESP).

redis-py's own packing takes twice as long, which an enqueue of ten thousand items feels; the part
of a script call that never changes is kept ready.

Source: the RESP specification, "Sending commands to a Redis server": an array of bulk strings.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_HEADS = 256
"""Beginnings of script calls that are kept: scripts times features times queues of a process."""


def packed_words(words: Iterable[object]) -> bytes:
    """Words one after the other, without the array around them; what is no bytes becomes text."""
    texts = [word if type(word) is bytes else str(word).encode() for word in words]
    return b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in texts])


def packed(*commands: Sequence[object]) -> bytes:
    """Commands, each a sequence of words.

    Args:
        commands: Such as ``("HLEN", key)``.
    """
    return b"".join([b"*%d\r\n%b" % (len(words), packed_words(words)) for words in commands])


@lru_cache(maxsize=MOST_HEADS)
def packed_head(way: str, script: str, keys: tuple[str, ...]) -> bytes:
    """Beginning of a script call: the script and its keys.

    Args:
        way: "EVAL" or "EVALSHA".
        script: Its text or its SHA-1.
        keys: Names of its keys.
    """
    return packed_words((way, script, len(keys), *keys))


def packed_call(way: str, script: str, keys: tuple[str, ...], arguments: Sequence[object]) -> bytes:
    """A script call.

    Args:
        way: "EVAL" or "EVALSHA".
        script: Its text or its SHA-1.
        keys: Names of its keys.
        arguments: What the script finds in ARGV.
    """
    count = 3 + len(keys) + len(arguments)
    return b"*%d\r\n%b%b" % (count, packed_head(way, script, keys), packed_words(arguments))
