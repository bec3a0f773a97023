"""Replies that are read from the socket: names may hold anything, and none is taken for whole."""

from io import BytesIO

import pytest
from redis.exceptions import ResponseError

from vtrr_queue.bulk import packed_lengths, read_numbers, read_scan, read_texts
from vtrr_queue.wire import packed

NAMES = [b"plain", b"", b"a\r\nb", b"$5\r\n", "\N{SNOWMAN}".encode()]


def reply(texts):
    return b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%b\r\n" % (len(t), t) for t in texts)


def test_commands_are_packed_as_the_server_reads_them():
    assert packed(("ZRANGE", b"k", 1)) == reply([b"ZRANGE", b"k", b"1"])
    assert packed_lengths(NAMES) == b"".join(reply([b"LLEN", name]) for name in NAMES)


def test_replies_are_read_to_their_end_and_no_further():
    stream = BytesIO(
        b":1\r\n:20\r\n" + reply(NAMES) + b"*2\r\n$1\r\n7\r\n" + reply(NAMES) + b"rest"
    )
    assert read_numbers(stream, 2) == [1, 20]
    assert read_texts(stream) == NAMES
    assert read_scan(stream) == (b"7", NAMES)
    assert stream.read() == b"rest"


READERS = [
    (lambda stream: read_numbers(stream, 2), b":1\r\n:20\r\n"),
    (read_texts, reply(NAMES)),
    (read_scan, b"*2\r\n$1\r\n7\r\n" + reply(NAMES)),
]


@pytest.mark.parametrize(("read", "whole"), READERS, ids=["numbers", "texts", "scan"])
def test_a_connection_that_ends_in_a_reply_is_noticed(read, whole):
    """After whatever byte."""
    for length in range(len(whole)):
        with pytest.raises(ConnectionError, match="ended in a reply"):
            read(BytesIO(whole[:length]))


@pytest.mark.parametrize(("read", "whole"), READERS, ids=["numbers", "texts", "scan"])
def test_a_refusal_is_raised(read, whole):
    with pytest.raises(ResponseError, match="NOPERM no right"):
        read(BytesIO(b"-NOPERM no right\r\n" + whole))
