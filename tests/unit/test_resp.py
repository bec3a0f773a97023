"""Frames are cut where the protocol says, whatever is inside."""

import pytest

from tests.resp import command_name, frame_end, is_out_of_band

FRAMES = [
    b"+OK\r\n",
    b"-ERR no\r\n",
    b":42\r\n",
    b"_\r\n",
    b"#t\r\n",
    b",1.5\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"$0\r\n\r\n",
    b"$8\r\n$3\r\na\r\n+\r\n",
    b"*2\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n",
    b"%1\r\n+a\r\n*1\r\n:1\r\n",
    b"~2\r\n:1\r\n:2\r\n",
    b">2\r\n+message\r\n+x\r\n",
    b"=7\r\ntxt:abc\r\n",
]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_ends_where_the_next_begins(frame):
    assert frame_end(frame + b"+NEXT\r\n") == len(frame)


@pytest.mark.parametrize("frame", FRAMES)
def test_every_true_beginning_is_incomplete(frame):
    assert {frame_end(frame[:length]) for length in range(len(frame))} == {None}


def test_a_frame_may_begin_anywhere():
    assert frame_end(b"+a\r\n$3\r\nabc\r\n", 4) == 13


def test_the_command_is_named_in_capitals():
    assert command_name(b"*2\r\n$3\r\nget\r\n$1\r\nx\r\n") == "GET"


def test_pushes_answer_no_command():
    assert is_out_of_band(b">2\r\n+message\r\n+x\r\n")
    assert not is_out_of_band(b"*0\r\n")
