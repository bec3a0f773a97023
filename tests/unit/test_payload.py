"""A call survives being stored; what does not is refused before, and named when read."""

import pickle
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from uuid import uuid4

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from hypothesis import given
from hypothesis import strategies as st

from vtrr_queue import payload
from vtrr_queue.errors import ArgumentError, PayloadError, UndecodablePayload
from vtrr_queue.payload import CallEncoder, Payload, decode, encode

JSON, PICKLE = "application/json", "application/x-python-serialize"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def stored_as(body, content_type=JSON, encoding="utf-8"):
    return Payload("m.f", content_type, encoding, {}, body)


@given(st.lists(json_values, max_size=4), st.dictionaries(st.text(), json_values, max_size=3))
def test_json_arguments_come_back_equal(args, kwargs):
    """Empty lists stay lists and large integers keep their digits, as no script looks inside."""
    try:
        stored = encode("m.f", args, kwargs)
    except PayloadError as error:
        assert "__type__" in str(error)  # noqa: PT017 - kombu's own mark, found by chance
        return
    assert decode(stored).call() == (args, kwargs)


@given(st.sampled_from([b"", b"m.f\nj\n\n", b"m.f\nj\n"]), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(head, rest):
    """Nothing else is raised, so that a broken item can become a dead letter."""
    with suppress(UndecodablePayload):
        decode(head + rest).call()


def test_the_parts_of_a_call_are_kept():
    stored = encode("m.f", [1], {"a": []}, headers={"retries": 2, "x": None}, embed={"chain": [7]})
    found = decode(stored)
    assert (found.task_name, found.content_type, found.content_encoding) == ("m.f", JSON, "utf-8")
    assert found.headers == {"retries": 2, "x": None}
    assert found.body == (
        b'[[1], {"a": []}, {"callbacks": null, "errbacks": null, "chain": [7], "chord": null}]'
    )
    assert found.call() == ([1], {"a": []})


def test_json_without_headers_costs_a_few_bytes():
    """The name, four separators and one letter beside what Celery itself would send."""
    stored = encode("m.f", [], {})
    assert len(stored) - len(decode(stored).body) == len("m.f") + 4


def test_binary_bodies_keep_their_newlines():
    """Only the first three separators count."""
    stored = encode("m.f", [b"\n\n\n", 1.5], {"x": {1, 2}}, serializer="pickle")
    found = decode(stored)
    assert (found.content_type, found.content_encoding) == (PICKLE, "binary")
    assert found.call([PICKLE]) == ([b"\n\n\n", 1.5], {"x": {1, 2}})


def test_the_body_is_not_shown():
    """Arguments may be secret, and reprs end up in logs."""
    assert "hunter2" not in repr(decode(encode("m.f", ["hunter2"], {})))


@pytest.mark.parametrize(
    ("args", "options", "reason"),
    [
        ([object()], {}, "not JSON serializable"),
        ([nested(100_000)], {}, "nested too deeply|ecursion"),
        ([lambda: 1], {"serializer": "pickle"}, "pickle"),
        ([{"__type__": "datetime", "__value__": "x"}], {}, "__type__"),
        ([1], {"headers": {"x": object()}}, "not JSON serializable"),
    ],
)
def test_what_cannot_be_serialised_is_refused(args, options, reason):
    """With the argument's name, so that a caller of many finds it."""
    with pytest.raises(PayloadError, match=reason) as caught:
        encode("m.f", args, {}, argument="tasks[3]", **options)
    assert str(caught.value).startswith("tasks[3] cannot be serialised: ")


def test_a_serialiser_that_kombu_does_not_know_is_refused():
    with pytest.raises(
        ArgumentError, match=r"^serializer must be one that kombu knows, not 'nope'"
    ):
        encode("m.f", [1], {}, serializer="nope")


def test_a_body_that_is_too_large_is_refused(monkeypatch):
    """It is named with its size and the bound."""
    monkeypatch.setattr(payload, "BODY_MAX", 100)
    encode("m.f", ["x" * 20], {})
    with pytest.raises(PayloadError, match=r"1[0-9][0-9] bytes are more than 100"):
        encode("m.f", ["x" * 50], {})


@pytest.mark.parametrize(
    "stored",
    [b"", b"m.f\nj\n", b"\xff\nj\n\n[]", b"m.f\njson\n\n[]", b"m.f\nj\n{\n[]", b"m.f\nj\n[1]\n[]",
     b"m.f\nj\n" + b"[" * 100_000 + b"\n[]"],
)  # fmt: skip
def test_another_layout_is_undecodable(stored):
    with pytest.raises(UndecodablePayload):
        decode(stored)


@pytest.mark.parametrize(
    "body",
    [b"", b"nope", b"\xff", b"{}", b"[[], {}]", b"[1, {}, {}]", b'["ab", {}, {}]',
     b"[[], [1], {}]", b'[[], ["ab"], {}]', b"[" * 100_000],
)  # fmt: skip
def test_a_body_that_is_no_call_is_undecodable(body):
    with pytest.raises(UndecodablePayload):
        stored_as(body).call()


@pytest.mark.parametrize(
    ("found", "accept"),
    [
        (stored_as(pickle.dumps([[], {}, {}]), PICKLE, "binary"), None),
        (stored_as(pickle.dumps([[], {}, {}]), PICKLE, "binary"), [JSON]),
        (stored_as(b"[[], {}, {}]"), [PICKLE]),
        (stored_as(b"[[], {}, {}]", "application/x-nope", "nope"), None),
        (stored_as(b"123", "application/x-nope", "binary"), None),
    ],
)
def test_types_that_are_not_accepted_are_undecodable(found, accept):
    """Above all, no pickle is opened that the app does not accept."""
    with pytest.raises(UndecodablePayload):
        found.call(accept)


class Interrupting(dict):
    """A mapping that is interrupted while it is written."""

    def items(self):
        raise SoftTimeLimitExceeded


def test_a_soft_limit_during_serialisation_is_no_payload_error():
    """It strikes wherever the child is; kombu would make an error of encoding of it."""
    with pytest.raises(SoftTimeLimitExceeded):
        encode("t", [Interrupting(a=1)], {}, serializer="json")


def test_a_soft_limit_is_let_through_by_the_encoder_of_many_calls():
    with pytest.raises(SoftTimeLimitExceeded):
        CallEncoder("t").encode([Interrupting(a=1)], {})


class Strange:
    """What only kombu's JSON knows how to write, or fails to."""

    def __init__(self, error):
        self._error = error

    def __json__(self):
        if self._error:
            raise self._error
        return "strange"


calls = st.tuples(st.lists(json_values, max_size=4), st.dictionaries(st.text(), json_values))


def outcome(call):
    try:
        return call()
    except (PayloadError, ArgumentError) as error:
        return str(error)


@pytest.mark.parametrize(
    "options", [{}, {"headers": {"root_id": "r"}}, {"serializer": "yaml"},
                {"compression": "gzip"}, {"headers": {"x": object()}}, {"serializer": "none"}],
)  # fmt: skip
@given(calls)
def test_many_calls_are_encoded_as_single_ones(options, call):
    """To the byte, and with the same errors."""
    encoder = CallEncoder("m.f", **options)
    assert outcome(lambda: encoder.encode(*call, "x")) == outcome(
        lambda: encode("m.f", *call, argument="x", **options)
    )


@pytest.mark.parametrize(
    "value", [datetime(2026, 1, 2, tzinfo=UTC), uuid4(), b"bytes", b"\xff", Decimal("1.5"),
              object(), nested(100_000), Strange(None), Strange(RuntimeError("no")), float("nan")],
)  # fmt: skip
def test_values_that_json_lacks_are_encoded_as_single_ones(value):
    encoder = CallEncoder("m.f")
    assert outcome(lambda: encoder.encode([value], {"k": value})) == outcome(
        lambda: encode("m.f", [value], {"k": value})
    )


def test_a_json_of_the_apps_own_is_used(monkeypatch):
    """Many replace kombu's by a faster one under the same name."""
    register = payload.registry.register
    before = payload.registry._encoders["json"].encoder, payload.registry._decoders[JSON]
    register("json", lambda _: '"mine"', before[1], JSON, "utf-8")
    try:
        assert CallEncoder("m.f").encode([1], {}).endswith(b'"mine"')
    finally:
        register("json", before[0], before[1], JSON, "utf-8")
