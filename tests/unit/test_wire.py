"""Commands are packed as redis-py packs them."""

from hypothesis import given
from hypothesis import strategies as st
from redis.connection import Connection

from vtrr_queue.wire import packed, packed_call

words = st.one_of(st.binary(max_size=40), st.text(max_size=40), st.integers(), st.floats())


def theirs(*command):
    return b"".join(Connection().pack_command(*command))


@given(st.lists(st.lists(words, max_size=6).map(lambda rest: ["HMGET", *rest]), max_size=4))
def test_commands(commands):
    assert packed(*commands) == b"".join(theirs(*command) for command in commands)


@given(st.lists(st.text(max_size=9), max_size=3).map(tuple), st.lists(words, max_size=5))
def test_script_calls(keys, arguments):
    """With the part that is kept ready, each time."""
    for _ in range(2):
        found = packed_call("EVALSHA", "ab" * 20, keys, arguments)
        assert found == theirs("EVALSHA", "ab" * 20, len(keys), *keys, *arguments)
