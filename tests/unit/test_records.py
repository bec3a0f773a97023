"""What is stored is read back as it was."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrr_queue.records import pack_id, read_since, unpack_id

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
