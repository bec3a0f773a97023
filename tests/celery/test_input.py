"""What callers pass to a queue is taken as it is, or refused by name with nothing changed."""

import math
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction

import pytest

from tests.callers import define, lease_all, make_queue, snapshot
from vtrr_queue import ArgumentError, ArgumentTypeError, DuplicateItem, PayloadError, VTRRQueue
from vtrr_queue.errors import VTRRError
from vtrr_queue.keys import SCHEMA
from vtrr_queue.payload import decode

HUGE = 10**5000  # more digits than Python is willing to print
NOT_NUMBERS = ["5", None, b"5", True, [5], 5j, Decimal(5), Fraction(5)]
NOT_TEXT = [None, 5, b"acme", True, ["acme"], object]
ODD_NAMES = {
    "colons": "a:b::c:",
    "braces": "{a}{b}",
    "NUL": "a\0b\0",
    "spaces": "  a b  ",
    "newlines": "a\nb\r\n",
    "emoji": "🦊🏳️‍🌈",
    "star": "*",
    "glob": "[a-z]?*\\",
    "digits": "12 7 a",
    "quotes": "'\"`$()",
    "10 kB": "x" * 10_240,
    "longest": "é" * 32_768,
    "a key's name": "queue",
}


class Unprintable:
    """Its repr fails, as that of a half-built object does."""

    def __repr__(self):
        raise RuntimeError("no repr")


def nested(depth):
    """A list in a list in a list..."""
    value = []
    for _ in range(depth):
        value = [value]
    return value


def circle():
    """A list that contains itself."""
    value = []
    value.append(value)
    return value


@pytest.fixture
def queue(redis_client):
    """A queue with its task, and two items waiting."""
    vtrr = make_queue(redis_client)
    vtrr.work = define(vtrr)
    vtrr.work.queue("earlier", [{"id": "e1"}, {"id": "e2"}])
    return vtrr


@pytest.fixture
def unchanged(redis_client, queue):
    """Fail when the test changed anything in Redis."""
    before = snapshot(redis_client)
    yield
    assert snapshot(redis_client) == before


def served(queue):
    """Take the two earlier items out of the way and return the other leases."""
    return [lease for lease in lease_all(queue) if lease.partition != "earlier"]


def called(lease):
    """Return a lease's arguments."""
    return decode(lease.body).call()


# --- the constructor ---------------------------------------------------------
BAD_SETTINGS = [
    *[("name", value) for value in [*NOT_TEXT, "", "a{b", "a}b", "n" * 201, "\ud800"]],
    *[("name", value) for value in ["files:backlog", "a:recent:b", "x:backlog:y"]],
    *[("celery_queue", value) for value in [*NOT_TEXT, "", "q" * 201, "\ud800"]],
    *[("max_concurrency", value) for value in [*NOT_NUMBERS, 0, -1, 1.5, math.inf, 10_001, HUGE]],
    *[("lease_seconds", value) for value in [*NOT_NUMBERS, 0, -1, math.inf, math.nan, 1e9, HUGE]],
    *[("reclaim_interval", value) for value in ["5", b"5", True, [5], 0, -1, math.inf, math.nan]],
    *[("reclaim_queue", value) for value in [5, b"q", True, "", "q" * 201]],
    *[("reclaim_position", value) for value in ["middle", "", None, b"back", ["back"]]],
    *[("dispatch", value) for value in ["Trigger", "", None, 1, ["direct"]]],
    *[("prefetch", value) for value in [-1, 101, 1.0, "1", None, True]],
    *[("trigger_timeout", value) for value in [None, "5", True, 0, -1, math.inf, math.nan]],
    *[("socket_timeout", value) for value in [None, "5", True, 0, -1, math.inf, math.nan]],
    *[("heartbeat", value) for value in [None, "5", [5], 0, -1, math.inf, math.nan, 3900, HUGE]],
    *[("max_runtime", value) for value in ["5", True, 0, -1, math.inf, math.nan, 60]],
    *[("on_lease_lost", value) for value in ["Terminate", "", None, True]],
    *[("max_timeouts", value) for value in ["5", True, [5], 0, -1, 1.5, HUGE]],
    *[("on_failure", value) for value in ["Dead", "", None, True]],
    *[("max_dead_letters", value) for value in [*NOT_NUMBERS, 0, -1, 1.5, HUGE]],
    *[("dead_letter_seconds", value) for value in [*NOT_NUMBERS, 0, -1, math.inf, math.nan]],
]


def shown(value):
    """What an error must show of a value."""
    if value is HUGE:
        return "int that cannot be printed"
    return repr(value)[:60]


@pytest.mark.parametrize(("argument", "value"), BAD_SETTINGS, ids=lambda v: ascii(v)[:20]
                         if v is not HUGE else "huge")  # fmt: skip
def test_a_bad_setting_is_refused_by_name(redis_client, argument, value):
    with pytest.raises(VTRRError) as caught:
        make_queue(redis_client, **{argument: value})
    assert isinstance(caught.value, ValueError | TypeError)
    assert caught.value.argument == argument
    assert str(caught.value).startswith(argument)
    assert shown(value) in str(caught.value)
    assert redis_client.dbsize() == 0


@pytest.mark.parametrize(
    "client", [None, "redis://localhost", object()], ids=lambda v: type(v).__name__
)
def test_a_thing_that_is_no_client_is_refused(client):
    with pytest.raises(
        ArgumentTypeError,
        match=r"^redis_client must be a redis\.Redis or a redis\.RedisCluster, not",
    ):
        make_queue(client)


@pytest.mark.parametrize("app", ["app", 5, object()], ids=lambda v: type(v).__name__)
def test_a_thing_that_is_no_app_is_refused(redis_client, app):
    with pytest.raises(ArgumentTypeError, match=r"^celery_app must be a Celery app, not"):
        VTRRQueue(redis_client, app, name="files")


def test_a_client_bound_to_one_connection_is_refused(server):
    """Threads and forked children would read each other's replies."""
    with (
        server.client(single_connection_client=True) as client,
        pytest.raises(ArgumentError, match=r"^redis_client must be .*single_connection_client"),
    ):
        make_queue(client)


def test_a_client_that_decodes_replies_works(server):
    with server.client(decode_responses=True) as client:
        vtrr = make_queue(client)
        define(vtrr).queue("acme", [{"args": [b"\xff\x00"], "id": "i"}])
        assert vtrr._dequeue()[1:4] == ([b"\xff\x00"], {}, "i")
        assert client.get("vtrr:files:schema") == SCHEMA


def test_settings_at_their_bounds_are_taken(redis_client):
    vtrr = make_queue(
        redis_client, name="n" * 200, max_concurrency=10_000, lease_seconds=0.001,
        reclaim_interval=0.5, trigger_timeout=0.1, socket_timeout=0.01,
    )  # fmt: skip
    assert (vtrr.lease_seconds, vtrr.engine.lease_ms) == (0.001, 1)


# --- partitions and ids ------------------------------------------------------
@pytest.mark.parametrize("partition", ODD_NAMES.values(), ids=ODD_NAMES)
def test_any_text_is_a_partition(redis_client, queue, partition):
    """A name is data: nothing in it is taken for a separator, a pattern or an end."""
    ids = queue.work.queue(partition, [{"args": [1]}, {"args": [2]}])
    leases = served(queue)
    assert [lease.item_id for lease in leases] == ids
    assert {lease.partition for lease in leases} == {partition}
    assert [called(lease) for lease in leases] == [([1], {}), ([2], {})]
    for lease in [*leases, *lease_all(queue)]:
        assert queue.ack(lease.item_id, lease.token)


@pytest.mark.parametrize("item_id", list(ODD_NAMES.values())[:-3], ids=list(ODD_NAMES)[:-3])
def test_any_text_is_an_id(queue, item_id):
    assert queue.work.queue("acme", [{"id": item_id}]) == [item_id]
    (lease,) = served(queue)
    assert lease.item_id == item_id
    assert queue.ack(item_id, lease.token)


def test_a_pattern_is_not_expanded(queue):
    """A partition called * touches no other."""
    queue.work.queue("*", [{"id": "star"}])
    queue.work.queue("acme", [{"id": "acme"}])
    leases = {lease.item_id: lease for lease in lease_all(queue)}
    assert queue.ack("star", leases["star"].token)
    assert not queue.ack("*", leases["acme"].token)
    assert queue.ack("acme", leases["acme"].token)


@pytest.mark.parametrize("partition", NOT_TEXT, ids=ascii)
def test_a_partition_that_is_no_text_is_refused(queue, unchanged, partition):
    with pytest.raises(ArgumentTypeError, match=r"^partition_key must be a string") as caught:
        queue.work.queue(partition, [{}])
    assert repr(partition) in str(caught.value)


@pytest.mark.parametrize(
    ("partition", "reason"),
    [("", "non-empty"), ("\ud800", "lone surrogates"), ("x" * 65_537, "at most 65536 bytes")],
    ids=["empty", "surrogate", "too long"],
)
def test_a_partition_out_of_range_is_refused(queue, unchanged, partition, reason):
    with pytest.raises(ArgumentError, match=rf"^partition_key must be .*{reason}") as caught:
        queue.work.queue(partition, [{}])
    assert repr(partition)[:60] in str(caught.value)
    assert len(str(caught.value)) < 400


# --- entries -----------------------------------------------------------------
BAD_ENTRIES = {
    "no dict": (["a"], "", "['a']"),
    "None": (None, "", "None"),
    "text": ("args", "", "'args'"),
    "unknown key": ({"arg": [1]}, "['arg']", "[1]"),
    "key of the wrong case": ({"Weight": 2}, "['Weight']", "2"),
    "key that is no text": ({1: 2}, "[1]", "2"),
    "partition in the entry": ({"partition_key": "b"}, "['partition_key']", "'b'"),
    "args as text": ({"args": "abc"}, "['args']", "'abc'"),
    "args as a dict": ({"args": {"a": 1}}, "['args']", "{'a': 1}"),
    "args as None": ({"args": None}, "['args']", "None"),
    "args as a set": ({"args": {1}}, "['args']", "{1}"),
    "args as bytes": ({"args": b"ab"}, "['args']", "b'ab'"),
    "args as a range": ({"args": range(2)}, "['args']", "range(0, 2)"),
    "kwargs as a list": ({"kwargs": [1]}, "['kwargs']", "[1]"),
    "kwargs as None": ({"kwargs": None}, "['kwargs']", "None"),
    "kwargs key": ({"kwargs": {1: 2}}, "['kwargs'] key", "1"),
    "kwargs key as bytes": ({"kwargs": {b"a": 2}}, "['kwargs'] key", "b'a'"),
    **{f"weight {v!r}": ({"weight": v}, "['weight']", repr(v)) for v in NOT_NUMBERS},
    **{
        f"weight {v!r:.9}": ({"weight": v}, "['weight']", repr(v)[:60])
        for v in [0, -1, 0.0009, 1.1e9, math.inf, -math.inf, math.nan, 10**400]
    },
    "weight huge": ({"weight": HUGE}, "['weight']", "int that cannot be printed"),
    **{f"id {v!r}": ({"id": v}, "['id']", repr(v)) for v in [*NOT_TEXT, "", uuid.UUID(int=1)]},
    "id surrogate": ({"id": "\ud800"}, "['id']", "'\\ud800'"),
    "id too long": ({"id": "i" * 4097}, "['id']", "'iiii"),
    "value without a repr": ({"weight": Unprintable()}, "['weight']", "Unprintable"),
    "value too deep to print": ({"kwargs": nested(100_000)}, "['kwargs']", "list"),
}


@pytest.mark.parametrize(("entry", "key", "value"), BAD_ENTRIES.values(), ids=BAD_ENTRIES)
def test_a_bad_entry_is_refused_by_index_and_key(queue, unchanged, entry, key, value):
    with pytest.raises(VTRRError) as caught:
        queue.work.queue("acme", [{"args": [1]}, entry, {"args": [2]}])
    assert isinstance(caught.value, ValueError | TypeError)
    assert caught.value.argument == f"tasks[1]{key}"
    assert str(caught.value).startswith(f"tasks[1]{key} must be ")
    assert value in str(caught.value)
    assert len(str(caught.value)) < 400


UNSERIALISABLE = {
    "set": {1},
    "object": object(),
    "function": math.sin,
    "complex": 1j,
    "generator": (n for n in ()),
    "exception": ValueError("x"),
    "self-referencing": circle(),
    "100,000 deep": nested(100_000),
    "keys of a kind JSON has not": {(1, 2): 3},
    "unknown type marker": {"__type__": "no-such", "__value__": 1},
    "marker with a wrong value": {"__type__": "uuid", "__value__": "x"},
    "marker that changes the type": {"__type__": "decimal", "__value__": "1.5"},
    "marker inside": [{"a": [{"__type__": "bytes", "__value__": "x"}]}],
}


@pytest.mark.parametrize("key", ["args", "kwargs"])
@pytest.mark.parametrize("value", UNSERIALISABLE.values(), ids=UNSERIALISABLE)
def test_a_payload_that_cannot_travel_is_refused(queue, unchanged, key, value):
    """That includes kombu's own marker, which would come back as something else."""
    entry = {"args": [value]} if key == "args" else {"kwargs": {"value": value}}
    with pytest.raises(PayloadError) as caught:
        queue.work.queue("acme", [{}, entry])
    assert caught.value.argument == f"tasks[1][{key!r}]"
    assert str(caught.value).startswith(f"tasks[1][{key!r}] cannot be serialised: ")


PAYLOADS = {
    "numbers": [0, -1, 10**30, 1.5, 1e300, math.inf, True, None],
    "text": ["", "é🦊", "\0", "\ud800", "a\nb", "x" * 100_000],
    "bytes": [b"", b"abc", b"\xff\xfe\0"],
    "times": [datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2), time(3, 4)],
    "exact": [Decimal("1.10"), uuid.UUID(int=7)],
    "empty": [[], {}, [[]], {"a": {}}],
    "markers as plain data": [{"__type__": 1}, {"__value__": 2}, "__type__",
                              {"__type__": 1, "__value__": 2, "more": 3}],
    "our own words": [{"args": [1], "weight": 2, "id": "x"}, "queue", "\n\n\n"],
    "nested": nested(200),
}  # fmt: skip


@pytest.mark.parametrize("value", PAYLOADS.values(), ids=PAYLOADS)
def test_a_payload_comes_back_equal(queue, value):
    queue.work.queue("acme", [{"args": value, "kwargs": {"value": value}}])
    (lease,) = served(queue)
    assert called(lease) == (value, {"value": value})


@pytest.mark.parametrize("weight", [1, 1.0, 0.001, 1e9, 3, 2.5, 0.1])
def test_a_weight_in_range_comes_back_equal(queue, weight):
    queue.work.queue("acme", [{"weight": weight}])
    (lease,) = served(queue)
    assert lease.weight == weight


@pytest.mark.parametrize(
    "tasks", [None, {"args": [1]}, "abc", 5, iter([{}]), {1}, b"ab"], ids=lambda v: type(v).__name__
)
def test_something_else_than_a_list_is_refused(queue, unchanged, tasks):
    with pytest.raises(ArgumentTypeError, match=r"^tasks must be a list of dicts, not"):
        queue.work.queue("acme", tasks)


@pytest.mark.parametrize("choice", ["ignore", "", None, True, ["skip"]], ids=ascii)
def test_an_unknown_duplicate_rule_is_refused(queue, unchanged, choice):
    with pytest.raises(ArgumentError, match=r"^on_duplicate must be 'skip' or 'error', not"):
        queue.work.queue("acme", [{}], on_duplicate=choice)


@pytest.mark.parametrize("tasks", [[], ()], ids=ascii)
def test_nothing_to_enqueue_is_nothing(queue, unchanged, tasks):
    assert queue.work.queue("acme", tasks) == []


def test_ids_are_made_in_order(queue):
    ids = queue.work.queue("acme", ({"id": "a"}, {}, {"id": "b"}, {}))
    assert ids[::2] == ["a", "b"]
    assert all(uuid.UUID(made).version == 4 for made in ids[1::2])


# --- duplicates --------------------------------------------------------------
def test_a_known_id_is_skipped_and_the_first_stands(queue):
    """Whether it waits or runs, and in another partition too."""
    queue.work.queue("acme", [{"id": "a", "args": [1]}])
    assert queue.work.queue("bolt", [{"id": "a", "args": [2]}, {"id": "b"}]) == ["a", "b"]
    leases = {lease.item_id: lease for lease in served(queue)}
    assert (leases["a"].partition, called(leases["a"])) == ("acme", ([1], {}))
    queue.work.queue("acme", [{"id": "a", "args": [3]}])
    assert lease_all(queue) == ()
    assert queue.ack("a", leases["a"].token)
    queue.work.queue("acme", [{"id": "a", "args": [4]}])
    assert called(lease_all(queue)[0]) == ([4], {})


def test_an_id_twice_in_one_call_is_one_item(queue):
    assert queue.work.queue("acme", [{"id": "a", "args": [1]}, {"id": "a", "args": [2]}]) == [
        "a", "a",
    ]  # fmt: skip
    (lease,) = served(queue)
    assert called(lease) == ([1], {})


@pytest.mark.parametrize("ids", [["e1"], ["new", "e2"], ["new", "new"]], ids=ascii)
def test_a_known_id_is_refused_on_request(queue, unchanged, ids):
    with pytest.raises(DuplicateItem) as caught:
        queue.work.queue("acme", [{"id": i} for i in ids], on_duplicate="error")
    assert caught.value.item_ids == [ids[-1]]
    assert repr(ids[-1]) in str(caught.value)


# --- many and large ----------------------------------------------------------
def test_ten_thousand_entries_are_stored_in_order(queue):
    tasks = [{"args": [n]} for n in range(10_001)]
    ids = queue.work.queue("acme", tasks)
    assert len(set(ids)) == 10_001
    found = [called(lease)[0] for _ in range(11) for lease in served(queue)]
    assert found == [[n] for n in range(10_001)]


@pytest.mark.parametrize("last", [{"weight": 0}, {"args": [{1}]}, {"args": 1}], ids=ascii)
def test_one_bad_entry_of_ten_thousand_stores_none(queue, unchanged, last):
    with pytest.raises(VTRRError, match=r"^tasks\[10000\]\["):
        queue.work.queue("acme", [{}] * 10_000 + [last])


def test_one_known_id_of_many_stores_none(queue, unchanged):
    """Also when the entries go in several chunks."""
    with pytest.raises(DuplicateItem):
        queue.work.queue("acme", [*([{}] * 1500), {"id": "e1"}], on_duplicate="error")


def test_a_payload_of_some_megabytes_is_taken(queue):
    queue.work.queue("acme", [{"args": ["x" * 3_000_000]}] * 3)
    assert [len(called(lease)[0][0]) for lease in served(queue)] == [3_000_000] * 3


def test_a_payload_beyond_the_limit_is_refused(queue, unchanged, monkeypatch):
    monkeypatch.setattr("vtrr_queue.payload.BODY_MAX", 1000)
    with pytest.raises(PayloadError, match=r"^tasks\[1\]\['args'\] .*bytes are more than 1000"):
        queue.work.queue("acme", [{}, {"args": ["x" * 1000]}])
