"""Engine.enqueue stores every item once, in order, or says what it has stored."""

from contextlib import closing

import pytest
import redis

from tests.queues import audited_engine, drain, items
from tests.stored import stored
from vtrr_queue.engine import Engine
from vtrr_queue.errors import (
    ArgumentError,
    DuplicateItem,
    EnqueueInterrupted,
    Refused,
    SchemaMismatch,
    Unavailable,
)
from vtrr_queue.model import Enqueued, NewItem, TriggerBudget, Wake
from vtrr_queue.records import CHUNK_BYTES, CHUNK_ITEMS, chunks_of

NAMES = [f"i{9999 - n:04}" for n in range(1200)]


def ids(leases):
    return [lease.item_id for lease in leases]


def before_call(engine, monkeypatch, number, action):
    """Do something just before the n-th script call of an engine."""
    real, calls = engine.client.call_many, []

    def call_many(*arguments):
        calls.append(arguments)
        if len(calls) == number:
            action()
        return real(*arguments)

    monkeypatch.setattr(engine.client, "call_many", call_many)


@pytest.mark.parametrize("state", ["waiting", "running", "delayed"])
def test_a_known_id_is_skipped(engine, state):
    """The first one stands, with its partition, its weight and its place."""
    engine.enqueue("A", items("a1", delay_ms=60_000 * (state == "delayed")))
    held = engine.lease().items if state == "running" else ()
    result = engine.enqueue("B", items("a1", "b1", "b1", weight=9))
    assert result.item_ids == ("a1", "b1", "b1")
    assert result.duplicates == ("a1", "b1")
    assert ids(drain(engine)) == (["a1", "b1"] if state == "waiting" else ["b1"])
    assert [engine.ack(x.item_id, x.token).held for x in held] == [True] * len(held)


@pytest.mark.parametrize("state", ["waiting", "running", "delayed"])
@pytest.mark.parametrize("size", [1, CHUNK_ITEMS + 1])
def test_a_known_id_is_an_error_when_asked(engine, redis_client, state, size):
    """Nothing of the call is stored, however long it is."""
    engine.enqueue("A", items("a1", delay_ms=60_000 * (state == "delayed")))
    if state == "running":
        engine.lease()
    before = stored(redis_client)
    with pytest.raises(DuplicateItem, match="already waiting or running: 'a1'") as caught:
        engine.enqueue("B", items(*NAMES[:size], "a1"), on_duplicate="error")
    assert caught.value.item_ids == ["a1"]
    assert stored(redis_client) == before


@pytest.mark.parametrize("between", [0, CHUNK_ITEMS])
def test_an_id_that_comes_twice_is_an_error_when_asked(engine, redis_client, between):
    """Whether or not both would be stored by one script."""
    names = ["twice", *NAMES[:between], "twice"]
    with pytest.raises(DuplicateItem) as caught:
        engine.enqueue("A", items(*names), on_duplicate="error")
    assert caught.value.item_ids == ["twice"]
    assert stored(redis_client) == {}


def test_a_finished_id_is_new(engine):
    engine.enqueue("A", items("a1"))
    drain(engine)
    assert engine.enqueue("A", items("a1"), on_duplicate="error").duplicates == ()
    assert ids(drain(engine)) == ["a1"]


def test_an_empty_call_does_nothing(engine):
    calls = engine.client.calls
    assert engine.enqueue("A", []) == Enqueued((), (), Wake())
    assert engine.client.calls == calls


def test_an_item_may_have_an_empty_body(engine):
    """The body is opaque, its size matters to nobody."""
    engine.enqueue("A", [NewItem("a1", b""), NewItem("a2", b"")])
    assert [lease.body for lease in drain(engine)] == [b"", b""]


def test_every_byte_of_a_body_comes_back(engine):
    body = bytes(range(256)) * 3
    engine.enqueue("части 1 2", [NewItem("один 1", body, 0.125)])
    (lease,) = drain(engine)
    assert (lease.partition, lease.item_id, lease.body) == ("части 1 2", "один 1", body)
    assert lease.weight == 0.125


@pytest.mark.parametrize(
    "weight", [0, -1, 0.0009, 1.1e9, float("nan"), float("inf"), float("-inf")]
)
def test_a_weight_out_of_range_is_refused(weight):
    """Before it gets anywhere near a queue."""
    with pytest.raises(ArgumentError, match=r"weight must be 0\.001 to 1e\+09, not"):
        NewItem("a1", b"", weight)


@pytest.mark.parametrize("weight", [0.001, 1 / 3, 1e9, 7])
def test_a_weight_is_charged_to_the_last_digit(engine, weight):
    engine.enqueue("A", items("a1", "a2", weight=weight))
    engine.lease()
    (tag,) = engine.client.read(("ZSCORE", engine.keys["queue"], "A"))
    assert float(tag) == weight


def test_large_calls_are_split(engine):
    """By count and by bytes, so that no script blocks the server for long; order is kept."""
    calls = engine.client.calls
    engine.enqueue("A", items(*NAMES))
    assert engine.client.calls - calls == 3
    assert ids(drain(engine)) == NAMES
    sizes = [len(chunk) for chunk in chunks_of([NewItem("x", b"x" * (CHUNK_BYTES // 2))] * 5)]
    assert sizes == [2, 2, 1]
    assert [len(chunk) for chunk in chunks_of([NewItem("x", b"x" * 2 * CHUNK_BYTES)] * 2)] == [1, 1]


def test_triggers_are_sent_for_the_last_part(engine):
    """The ledger's ids are unlike those of any other call; one item asks for one (S20)."""
    budget = TriggerBudget(max_outstanding=3)
    wake = engine.enqueue("A", items(*NAMES), budget=budget).wake
    assert (len(set(wake.triggers)), wake.waiting) == (3, 1200)
    engine.forget_triggers(wake.triggers[:2])
    again = engine.enqueue("A", items("new"), budget=budget).wake
    assert len({*wake.triggers, *again.triggers}) == 4


def test_a_part_of_one_item_asks_for_the_whole_call(engine):
    """The last of 501 is a part of its own, and 501 items wait."""
    budget = TriggerBudget(max_outstanding=3)
    wake = engine.enqueue("A", items(*NAMES[: CHUNK_ITEMS + 1]), budget=budget).wake
    assert len(wake.triggers) == 3


def test_a_bulk_call_that_redis_interrupts_names_what_is_stored(proxy, monkeypatch):
    """Enqueuing the same ids again stores the rest; nothing comes twice."""
    monkeypatch.setattr("vtrr_queue.talk.BACKOFF_SECONDS", (0.0, 0.0))
    with redis.Redis.from_url(proxy.url()) as client, audited_engine(client) as engine:
        before_call(engine, monkeypatch, 2, proxy.refuse)
        with pytest.raises(EnqueueInterrupted, match="500 items are stored, 700") as caught:
            engine.enqueue("A", items(*NAMES))
        assert (caught.value.stored, caught.value.unknown) == (NAMES[:500], NAMES[500:])
        assert isinstance(caught.value.__cause__, Unavailable)
        proxy.heal()
        assert engine.enqueue("A", items(*NAMES)).duplicates == tuple(NAMES[:500])
        assert ids(drain(engine)) == NAMES


def test_a_bulk_call_that_fills_the_memory_names_what_is_stored(engine, redis_client, monkeypatch):
    """The server refuses the second part; the first one stands and is served."""
    redis_client.config_set("maxmemory-policy", "noeviction")
    before_call(engine, monkeypatch, 2, lambda: redis_client.config_set("maxmemory", 1))
    try:
        with pytest.raises(EnqueueInterrupted) as caught:
            engine.enqueue("A", items(*NAMES))
        assert isinstance(caught.value.__cause__, Refused)
        with pytest.raises(Refused, match=r"enqueue: Redis refused: .*maxmemory"):
            engine.enqueue("B", items("b1"))
    finally:
        redis_client.config_set("maxmemory", 0)
    assert ids(drain(engine)) == caught.value.stored == NAMES[:500]


def test_a_call_of_which_nothing_was_stored_is_simply_unavailable(proxy, monkeypatch):
    monkeypatch.setattr("vtrr_queue.talk.BACKOFF_SECONDS", (0.0, 0.0))
    with redis.Redis.from_url(proxy.url()) as client:
        engine = Engine(client, "q")
        proxy.refuse()
        with closing(engine.client), pytest.raises(Unavailable, match="enqueue: Redis did not"):
            engine.enqueue("A", items(*NAMES))


@pytest.mark.parametrize(
    ("found", "hint"), [("99", "layout 99, this release needs layout"), ("", "vtrr_queue.migrate")]
)
def test_keys_of_another_layout_are_refused(redis_client, found, hint):
    """With what to do about it; every method does so."""
    engine = Engine(redis_client, "q")
    redis_client.hset(engine.keys["task"], "old", "{}")
    if found:
        redis_client.set(engine.keys["schema"], found)
    before = stored(redis_client)
    for call in (
        lambda: engine.enqueue("A", items("a1")),
        engine.lease,
        engine.reclaim,
        lambda: engine.ack("old", "t"),
        lambda: engine.renew("old", "t"),
        lambda: engine.release("old", "t"),
        lambda: engine.retry("old", "t", delay_seconds=0, retries=1, body=b""),
        lambda: engine.bury("old", "t", "why"),
        lambda: engine.forget_triggers(["x"]),
    ):
        with pytest.raises(SchemaMismatch, match=hint) as caught:
            call()
        assert caught.value.found == found
    assert stored(redis_client) == before
    engine.client.close()
