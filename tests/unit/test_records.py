"""What is stored is read back as it was."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clock import KEY, set_clock
from vtrr_queue import Engine
from vtrr_queue.model import NewItem
from vtrr_queue.records import pack_id, read_priority, read_record, read_since, unpack_id

TEXT = "0b5f6c1e-9d3a-4f57-8c43-1a2b3c4d5e6f"


@given(st.uuids() | st.text(min_size=1).map(str) | st.just(uuid.UUID(int=0)))
def test_an_id_comes_back_as_it_was(item_id):
    text = str(item_id)
    assert unpack_id(pack_id(text)) == text


def test_a_uuid_takes_seventeen_bytes():
    assert len(pack_id(TEXT)) == 17


@pytest.mark.parametrize(
    "text",
    [TEXT.upper(), TEXT.replace("-", ""), f"{TEXT}\n", f"{{{TEXT}}}", TEXT.replace("-", "_"),
     "0b5f6c1 -9d3a-4f57-8c43-1a2b3c4d5e6f"],
)  # fmt: skip
def test_what_is_nearly_a_uuid_stays_text(text):
    """Another form would not come back as it was."""
    assert pack_id(text) == text.encode()
    assert unpack_id(pack_id(text)) == text


def test_ids_of_seventeen_characters_are_not_taken_for_packed_ones():
    assert unpack_id(pack_id("ÿ" * 17)) == "ÿ" * 17
    assert unpack_id(pack_id("x" * 17)) == "x" * 17


@pytest.mark.parametrize(("head", "since"), [(b"2 1 3 18bcfe56800 ", 1_700_000_000_000),
                                             (b"    ", None)])  # fmt: skip
def test_a_record_tells_since_when_it_is_servable(head, since):
    """What was converted from release 0.2 does not."""
    assert read_since(head + b"1 abody") == since


@pytest.mark.parametrize("name", ["a", "x" * 191, "x" * 192, "ü" * 100, " 1 ", "1@5"])
@pytest.mark.parametrize("now_ms", [0, 1_577_836_800_000, 1_700_000_000_123, 2_677_348_427_775])
def test_a_record_is_read_as_it_was_written(redis_client, name, now_ms):
    """By scripts and here; those of long names and odd times are text."""
    redis_client.set(KEY, now_ms)
    with set_clock(redis_client) as clock:
        clock.advance(now_ms - clock.now_ms)
        engine = Engine(redis_client, "q")
        body = b"1@5 \x00\xff"
        items = [
            NewItem("plain", body),
            NewItem("heavy", body, weight=2.5),
            NewItem("one", body, weight=1),
        ]
        engine.enqueue(name, items)
        stored = redis_client.hgetall(engine.keys["task"])
        for item_id, weight in ((b"plain", 1.0), (b"heavy", 2.5), (b"one", 1.0)):
            assert read_record(stored[item_id]) == (name, weight, 0, 0, body)
            assert read_since(stored[item_id]) == now_ms
            assert read_priority(stored[item_id]) == 5
        is_short = len(name.encode()) <= 191 and now_ms >= 1_577_836_800_000
        assert (stored[b"plain"][0] >= 64) == is_short
        for item in items:
            (lease,) = engine.lease().items
            assert (lease.item_id, lease.partition, lease.body) == (item.item_id, name, body)
            assert (lease.weight, lease.since_ms) == (item.weight or 1, now_ms)
            assert engine.release(lease.item_id, lease.token, timed_out=True)
            assert read_record(redis_client.hget(engine.keys["task"], item.item_id)) == (
                name, item.weight or 1, 1, 0, body,
            )  # fmt: skip
            assert read_since(redis_client.hget(engine.keys["task"], item.item_id)) == now_ms
            engine.cancel([item.item_id])
