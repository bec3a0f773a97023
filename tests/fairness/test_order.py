"""The order in which a real server gives items out."""

import itertools

import pytest

from tests.queues import drain, finish, items, serve
from tests.stored import stored
from vtrr_queue.reference import REBASE_AT, ReferenceScheduler


def ids(leases):
    return [lease.item_id for lease in leases]


def numbered(letter, count):
    return [f"{letter}{n}" for n in range(1, count + 1)]


def test_a_newcomer_is_served_between_the_items_of_another(engine):
    """A enqueues three, then B one: a1 b1 a2 a3."""
    engine.enqueue("A", items("a1", "a2", "a3"))
    engine.enqueue("B", items("b1"))
    assert serve(engine, 4) == ["a1", "b1", "a2", "a3"]


def test_a_flood_does_not_hold_up_a_later_tenant(engine):
    """A enqueues 5,000, then B ten: all of B's are among the next 25 serves of one slot."""
    engine.enqueue("A", items(*numbered("a", 5000)))
    serve(engine, 7)
    engine.enqueue("B", items(*numbered("b", 10)))
    served = serve(engine, 25)
    assert [item_id for item_id in served if item_id[0] == "b"] == numbered("b", 10)


@pytest.mark.parametrize("before", [0, 1, 50])
def test_a_newcomer_waits_for_one_serve_of_each_other(engine, before):
    """At most, however much they have waiting and however long they have been served."""
    for partition in "pqrs":
        engine.enqueue(partition, items(*numbered(partition, 100)))
    serve(engine, before)
    engine.enqueue("z", items("z1"))
    served = serve(engine, 5)
    waited = served[: served.index("z1")]
    assert len({item_id[0] for item_id in waited}) == len(waited) <= 4


@pytest.mark.parametrize("reverse", [False, True])
def test_a_partition_is_first_in_first_out(engine, reverse):
    """10,000 items of one call run in its order, whichever way their ids sort."""
    names = sorted((f"i{n:05}" for n in range(10_000)), reverse=reverse)
    engine.enqueue("A", items(*names))
    assert ids(drain(engine)) == names


def test_order_is_kept_over_many_calls_and_partitions(engine):
    """Each partition's items come in the order of its calls, each partition as often."""
    names = {p: [f"{p}{999 - n:03}" for n in range(60)] for p in "abc"}
    for start, size in ((0, 1), (1, 9), (10, 50)):
        for partition in "cab":
            engine.enqueue(partition, items(*names[partition][start : start + size]))
    served = ids(drain(engine, count=7))
    assert [item_id[0] for item_id in served] == list("abc") * 60
    for partition, expected in names.items():
        assert [item_id for item_id in served if item_id[0] == partition] == expected


@pytest.mark.parametrize("weight", [1, 3, 8])
def test_a_heavy_item_gives_others_as_many_turns(engine, weight):
    """After an item of weight N every other partition gets N turns of weight 1."""
    engine.enqueue("A", items(*numbered("a", 6), weight=weight))
    engine.enqueue("B", items(*numbered("b", 60)))
    served = "".join(item_id[0] for item_id in serve(engine, 5 * (weight + 1)))
    assert served == ("a" + "b" * weight) * 5


def test_light_items_share_one_turn(engine):
    """Four of weight 0.25 are worth one of weight 1."""
    engine.enqueue("A", items(*numbered("a", 40), weight=0.25))
    engine.enqueue("B", items(*numbered("b", 40)))
    served = "".join(item_id[0] for item_id in serve(engine, 30))
    assert served == "abaaa" + "abaaa" * 5


def test_debt_is_kept_while_a_partition_is_away(engine):
    """Running dry after a heavy item does not make a partition a newcomer."""
    engine.enqueue("B", items(*numbered("b", 40)))
    engine.enqueue("A", items("a1", weight=10))
    assert serve(engine, 2) == ["a1", "b1"]
    engine.enqueue("A", items("a2"))
    assert serve(engine, 11) == [*numbered("b", 10)[1:], "a2", "b11"]


def test_credit_is_not_kept_while_a_partition_is_away(engine):
    """Who asked for nothing during 200 serves does not get 200 in a row afterwards."""
    engine.enqueue("B", items("b1"))
    engine.enqueue("A", items(*numbered("a", 400)))
    serve(engine, 200)
    engine.enqueue("B", items(*numbered("c", 50)))
    served = "".join(item_id[0] for item_id in serve(engine, 40))
    assert served == "ca" * 20


def test_trickling_tenants_do_not_starve_a_backlog(engine):
    """Five that enqueue one item whenever they have none get a sixth each, no more."""
    engine.enqueue("backlog", items(*numbered("b", 400)))
    numbers = itertools.count()
    for partition in "pqrst":
        engine.enqueue(partition, items(f"{partition}{next(numbers)}"))
    served = []
    for _ in range(600):
        (lease,) = engine.lease().items
        if lease.partition != "backlog":
            engine.enqueue(lease.partition, items(f"{lease.partition}{next(numbers)}"))
        engine.ack(lease.item_id, lease.token)
        served.append(lease.partition)
    assert {p: served.count(p) for p in set(served)} == dict.fromkeys([*"pqrst", "backlog"], 100)


def test_an_idle_queue_holds_no_state(engine, redis_client):
    """Nothing waits and nothing runs: no tag, no clock, no partition; the next start at zero."""
    engine.enqueue("A", items(*numbered("a", 5), weight=7))
    engine.enqueue("B", items("b1"))
    drain(engine)
    assert stored(redis_client) == {}
    engine.enqueue("A", items("a9"))
    engine.enqueue("B", items("b8", "b9"))
    assert serve(engine, 3) == ["a9", "b8", "b9"]


def test_partitions_that_went_idle_are_forgotten(engine, redis_client):
    """On a queue that never drains only those few are kept whose tag is ahead of the clock."""
    engine.enqueue("base", items(*numbered("b", 1000)))
    largest = 0
    for n in range(500):
        engine.enqueue(f"once-{n}", items(f"o{n}"))
        serve(engine, 2)
        keys = [("ZCARD", engine.keys[key]) for key in ("queue", "partition_virtual_time")]
        largest = max(largest, sum(engine.client.read(*keys)))
    assert largest <= 3
    assert not [key for key in stored(redis_client) if key.startswith("backlog:once")]


def test_tags_are_moved_back_without_a_change_of_order(engine, redis_client):
    """Three tenants use 1,200,000,000,000 turns each; the order is that of unbounded tags."""
    unbounded = ReferenceScheduler(rebase_at=float("inf"))

    def enqueue(partition, names, weight):
        engine.enqueue(partition, items(*names, weight=weight))
        for name in names:
            unbounded.enqueue(partition, name, weight=weight, now_ms=0)

    for partition, weight, count in (("a", 1e9, 1200), ("b", 1e9, 1200), ("c", 5e8, 2400)):
        enqueue(partition, numbered(partition, count), weight)
    for part in range(3):
        enqueue("debtor", [f"d{part}"], 1e9)
        expected = unbounded.lease(1500, now_ms=0)
        got = [lease for _ in range(15) for lease in engine.lease(count=100).items]
        assert finish(engine, got) == [True] * 1500
        assert ids(got) == [lease.item_id for lease in expected]
    assert unbounded.current_virtual_time > REBASE_AT
    (clock,) = engine.client.read(("GET", engine.keys["current_virtual_time"]))
    assert float(clock) < REBASE_AT
    expected = unbounded.lease(1000, now_ms=0)
    assert ids(drain(engine)) == [lease.item_id for lease in expected]
