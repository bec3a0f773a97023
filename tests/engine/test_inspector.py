"""The inspector shows what is there, and its audit finds every broken invariant."""

import pytest

from tests.clock import START_MS, set_clock
from tests.queues import audited_engine, drain, items
from tests.stored import stored
from vtrr_queue.inspector import Depth, HeldLease, Inspector, PartitionState
from vtrr_queue.model import DeadLetter, TriggerBudget


@pytest.fixture
def engine(redis_client):
    with set_clock(redis_client), audited_engine(redis_client, lease_seconds=10) as engine:
        yield engine


@pytest.fixture
def inspector(engine):
    return Inspector(engine)


@pytest.fixture
def busy(engine):
    """A queue with something in every place; returns the two leases."""
    engine.enqueue("dying", items("d1"))
    (lease,) = engine.lease().items
    engine.bury("d1", lease.token, "no reason")
    engine.enqueue("a", items("a1", "a2", "a3", weight=4))
    engine.enqueue("b", items("b1"))
    engine.enqueue("c", items("c1", "c2", delay_ms=500))
    return engine.lease(count=2, holder="me").items


def test_an_empty_queue(inspector):
    assert inspector.depth() == Depth(0, 0, 0, 0, 0, 0)
    assert inspector.partitions() == []
    assert inspector.leases() == []
    assert inspector.dead_letters() == []
    assert inspector.audit() == []


def test_the_depth_counts_each_item_once(engine, inspector, busy):
    engine.enqueue("a", items("a4"), budget=TriggerBudget(2))
    assert inspector.depth() == Depth(
        waiting=3, delayed=2, running=2, dead=1, partitions=1, triggers=1
    )


def test_partitions_come_in_the_order_of_serving(engine, inspector, busy):
    """Those that only run come last, with what they owe; those with nothing do not come."""
    engine.enqueue("z", items("z1"))
    assert inspector.partitions() == [
        PartitionState("z", waiting=1, running=0, start_tag=0),
        PartitionState("a", waiting=2, running=1, start_tag=4),
        PartitionState("b", waiting=0, running=1, start_tag=1),
    ]
    assert [state.name for state in inspector.partitions(limit=2)] == ["z", "a"]
    drain(engine)
    assert [state.name for state in inspector.partitions()] == ["a", "b"]


def test_leases_come_in_the_order_of_expiry(engine, inspector, busy):
    """With who holds them, since when and until when, and what was charged."""
    first, second = busy
    engine.renew("a1", first.token, 60)
    expected = [
        HeldLease("b1", second.token, "b", "me", START_MS, START_MS + 10_000, 1.0),
        HeldLease("a1", first.token, "a", "me", START_MS, START_MS + 60_000, 4.0),
    ]
    assert inspector.leases() == expected
    assert inspector.leases(limit=1) == expected[:1]


def test_dead_letters_come_latest_first(engine, inspector, busy):
    engine.retry("b1", busy[1].token, delay_seconds=0, retries=2, body=b"new body")
    engine.enqueue("a", items("e1"))
    by_id = {lease.item_id: lease for lease in engine.lease(count=9).items}
    engine.bury("b1", by_id["b1"].token, "two words")
    assert inspector.dead_letters(limit=2) == [
        DeadLetter("d1", "dying", "no reason", START_MS, 0, 0, 1.0, b"d1", started_at_ms=START_MS),
        DeadLetter(
            "b1", "b", "two words", START_MS, 0, 2, 1.0, b"new body", started_at_ms=START_MS
        ),
    ]
    assert [letter.item_id for letter in inspector.dead_letters(limit=1)] == ["d1"]


@pytest.mark.parametrize("name", ["*", "[a-c]", "a?", "\\", "a^b", "a:b"])
def test_names_are_data(redis_client, name):
    """A queue and partitions named like a pattern match themselves and nothing else."""
    with (
        audited_engine(redis_client, "other") as other,
        audited_engine(redis_client, name) as engine,
    ):
        other.enqueue("a", items("o1"))
        engine.enqueue(name, items("x1"))
        engine.enqueue("a", items("x2"))
        inspector = Inspector(engine)
        assert inspector.audit() == []
        assert {state.name for state in inspector.partitions()} == {name, "a"}
        assert len(drain(engine)) == 2
        assert inspector.audit() == []
        drain(other)


def test_looking_changes_nothing(inspector, busy, redis_client):
    before = stored(redis_client)
    inspector.depth()
    inspector.partitions()
    inspector.leases()
    inspector.dead_letters()
    assert inspector.audit() == []
    assert stored(redis_client) == before


BREAKS = {
    "a tag behind the clock": (
        ["ZADD queue -1 a"], ["I2: tag -1.0 of 'a' is outside 0.0 to 1000000000.0"]),
    "a tag too far ahead": (
        ["ZADD queue 2e9 a"], ["I2: tag 2000000000.0 of 'a' is outside 0.0 to 1000000000.0"]),
    "debt that is none": (
        ["ZADD partition_virtual_time 0 b"],
        ["I10: kept tag 0.0 of 'b' is not ahead of the clock 0.0"]),
    "a leaked slot": (
        ["HINCRBY running a 2"], ["I7: running {'a': 2} are not the leases {}"]),
    "a slot of nobody": (["HSET running x 0"], ["I7: running {"]),
    "a backlog that is not served": (
        ["ZREM queue a"], ["I8: 'a' has items waiting and is not in the queue"]),
    "an empty partition that is served": (
        ["ZADD queue 5 x"], ["I8: 'x' is in the queue and has nothing waiting"]),
    "a partition in two places": (
        ["ZADD partition_virtual_time 5 a"], ["I8: 'a' is in the queue and in another place"]),
    "a parked partition that is served": (
        ["ZADD parked 5 a"], ["I8: 'a' is in the queue and in another place"]),
    "an item in two places": (
        ["RPUSH backlog:a c1"],
        ["I9: item 'c1' waits in another partition, 'a'", "I9: known item 'c1' is in 2 places",
         "I9: 7 items wait or run, 6 records are kept"]),
    "an item that waits twice": (
        ["RPUSH backlog:a a2"], ["I9: known item 'a2' is in 2 places", "I9: 7 items"]),
    "an item in no place": (
        ["LREM backlog:a 0 a2"], ["I9: known item 'a2' is in 0 places", "I9: 5 items"]),
    "an item without a record": (
        ["HDEL task a2"], ["I9: unknown item 'a2' is in 1 places", "I9: 6 items"]),
    "an item both alive and dead": (
        ["HSET dead a2 x", "ZADD dead_index 1 a2"], ["I9: item 'a2' is alive and dead"]),
    "a dead letter that is not listed": (
        ["HSET dead x x"], ["I9: dead letter 'x' is not both kept and listed"]),
    "a lease that never expires": (
        ["ZREM inflight {a1}"], ["I9: 5 items", "I9: token '{a1}' is not both in lease and"]),
    "an expiry without a lease": (
        ["ZADD inflight 1 x"], ["I9: 7 items", "I9: token 'x' is not both in lease and"]),
    "a look after the expiry": (
        ["ZINCRBY inflight 1 {a1}"], ["I4: lease of 'a1' is looked at after it has expired"]),
    "a lease that was not charged": (
        ["HSET task a1 |9 0 0 1 aa1|"], ["I9: lease of 'a1' differs from its record"]),
    "another layout": (["SET schema 9"], ["I11: items are kept under layout '9', not '"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BREAKS)
def test_the_audit_finds(busy, inspector, redis_client, case):
    """Whatever is broken, and nothing else."""
    commands, expected = BREAKS[case]
    token = busy[0].token
    for command in commands:
        name, key, *words = [w.strip("|") for w in split(command.replace("{a1}", token))]
        redis_client.execute_command(name, inspector.keys[key], *words)
    found = inspector.audit()
    redis_client.flushdb()
    assert len(found) == len(expected)
    for sentence, begin in zip(sorted(found), sorted(expected), strict=True):
        assert sentence.startswith(begin.replace("{a1}", token))


def split(command):
    """Words of a command, of which one in bars may have spaces."""
    before, *quoted = command.split(" |")
    return [*before.split(), *quoted]


@pytest.mark.parametrize("key", ["queue", "partition_virtual_time", "delayed", "inflight"])
def test_the_audit_finds_what_outlives_the_items(inspector, redis_client, key):
    """At rest no scheduling key may be left."""
    redis_client.zadd(inspector.keys[key], {"x": 1})
    found = inspector.audit()
    redis_client.flushdb()
    assert f"I11: nothing waits or runs, and there is {key}" in found


def test_the_audit_takes_the_largest_charge(busy, inspector):
    """With what is known of the weights it is sharp."""
    assert inspector.audit(4) == []
    assert inspector.audit(3.5) == ["I2: tag 4.0 of 'a' is outside 0.0 to 3.5"]
