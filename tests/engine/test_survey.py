"""The survey finds every partition with work, wherever it stands, and says why it waits."""

import math
from uuid import uuid4

import pytest
import redis

from tests.queues import audited_engine, drain, items
from tests.stored import stored
from vtrr_queue import roster, survey
from vtrr_queue.errors import ArgumentError, Refused
from vtrr_queue.inspector import Inspector
from vtrr_queue.model import NewItem
from vtrr_queue.policy import Rate
from vtrr_queue.stats import Tally
from vtrr_queue.survey import Survey


@pytest.fixture
def engine(redis_client):
    with audited_engine(redis_client, lease_seconds=60) as engine:
        yield engine


@pytest.fixture
def look(engine):
    return Survey(engine).look


@pytest.fixture
def states(engine):
    """A queue with a partition in every state."""
    engine.set_policy("limited", rate=Rate("1/h"))
    engine.set_policy("capped", cap=1, share=3)
    for name in ("limited", "capped"):
        engine.enqueue(name, items(*(f"{name}{n}" for n in range(3))))
        assert engine.lease().items
    engine.enqueue("alone", items("alone0"))
    assert engine.lease().items
    for name in ("paused", "held", "ready"):
        engine.enqueue(name, items(*(f"{name}{n}" for n in range(3))))
    engine.enqueue("ready", items("later", delay_ms=3_600_000))
    engine.set_policy("paused", paused=True)
    engine.set_policy("held", hold=3600)
    return engine


def rows_of(overview):
    return {row.name: row for row in overview.rows}


def test_an_empty_queue(engine, look):
    found = look()
    assert (found.name, found.waiting, found.partitions, found.rows) == ("q", 0, 0, ())
    assert found.whole
    assert found.next_wake_ms is None
    assert Survey(engine).status().partitions == 0


def test_every_state_is_found(states, look):
    """With what waits and runs, wherever the partition stands."""
    found = look()
    assert {(row.name, row.state, row.waiting, row.running) for row in found.rows} == {
        ("limited", "limited", 2, 1), ("capped", "capped", 2, 1), ("alone", "running", 0, 1),
        ("paused", "paused", 3, 0), ("held", "held", 3, 0), ("ready", "ready", 3, 0),
    }  # fmt: skip
    numbers = (found.waiting, found.delayed, found.running, found.dead)
    assert numbers == (13, 1, 3, 0)
    assert (found.partitions, found.servable) == (6, 1)
    rows = rows_of(found)
    for name in ("held", "limited"):
        assert 3_500_000 < rows[name].until_ms - found.at_ms <= 3_600_000


def test_the_status_counts_them_all(states, monkeypatch):
    """Also those that wait for a pause, a hold or a limit, unless there are too many to look at."""
    found = Survey(states).status()
    assert (found.partitions, found.servable, found.whole) == (6, 1, True)
    monkeypatch.setattr(survey, "RENEWED_AT_ONCE", 5)
    found = Survey(states).status()
    assert (found.partitions, found.whole) == (4, False)


def test_the_status_of_settings_without_work(engine):
    """A pause and a hold of what has nothing waiting are no partitions with work."""
    engine.set_policy("paused", paused=True)
    engine.set_policy("held", hold=3600)
    engine.set_policy("", hold=3600)
    assert Survey(engine).status().partitions == 0


def test_the_inspector_finds_them_too(states):
    """Those that may be served first, those that only run or are capped last."""
    found = [(each.name, each.waiting, each.running) for each in Inspector(states).partitions()]
    assert found[0] == ("ready", 3, 0)
    assert sorted(found[1:3]) == [("held", 3, 0), ("limited", 2, 1)]
    assert found[3:] == [("paused", 3, 0), ("alone", 0, 1), ("capped", 2, 1)]
    assert Inspector(states).partitions(limit=2)[0].name == "ready"


def test_looking_writes_nothing(states, look, redis_client):
    before = stored(redis_client)
    look()
    Survey(states).status()
    Survey(states).why("ready")
    assert stored(redis_client) == before


def test_used_and_due(states, look):
    """A part of the charges of all leases; a share of those that are neither paused nor held."""
    rows = rows_of(look())
    assert {name: row.used for name, row in rows.items()} == pytest.approx(
        {"limited": 1 / 3, "capped": 1 / 3, "alone": 1 / 3, "paused": 0, "held": 0, "ready": 0}
    )
    assert {name: row.due for name, row in rows.items()} == pytest.approx(
        {"limited": 1 / 6, "capped": 3 / 6, "alone": 1 / 6, "paused": 0, "held": 0, "ready": 1 / 6}
    )


def test_used_follows_weights(engine, look):
    engine.enqueue("light", items("l1", "l2", weight=1))
    engine.enqueue("heavy", items("h1", "h2", weight=3))
    assert len(engine.lease(count=2).items) == 2
    rows = rows_of(look())
    assert (rows["light"].used, rows["heavy"].used) == (0.25, 0.75)


def test_used_counts_runs_where_time_is_charged(engine, look):
    engine.set_policy("", charge="runtime")
    engine.enqueue("light", items("l1", "l2", weight=1))
    engine.enqueue("heavy", items("h1", "h2", weight=3))
    assert len(engine.lease(count=2).items) == 2
    rows = rows_of(look())
    assert (rows["light"].used, rows["heavy"].used) == (0.5, 0.5)


def test_used_is_what_was_charged_where_workers_keep_statistics(engine, look):
    """Also of those that run nothing now; what others have used is part of the whole."""
    for name in ("a", "b", "c"):
        engine.enqueue(name, items(f"{name}1", f"{name}2"))
    assert engine.lease().items
    tally = Tally()
    for name, amount in (("b", 30), ("c", 50), ("gone", 20)):
        tally.charged(name, amount)
    engine.count(tally)
    found = look("used")
    assert [(row.name, row.used) for row in found.rows] == [("c", 0.5), ("b", 0.3), ("a", 0.0)]
    tally = Tally()
    tally.charged("a", 100)
    engine.count(tally)
    assert [(row.name, row.used) for row in look("used", limit=1).rows] == [("a", 0.5)]


def test_settings_are_those_in_force(engine, look):
    """A partition's own before the queue's defaults; none where a default was taken away."""
    engine.set_policy("", share=2, cap=4, rate="5/s")
    engine.set_policy("own", share=0.5, cap=7, rate="1/m")
    engine.set_policy("free", cap=math.inf, rate=math.inf)
    for name in ("own", "free", "plain"):
        engine.enqueue(name, items(name))
    rows = rows_of(look())
    found = {name: (row.share, row.cap, row.rate) for name, row in rows.items()}
    assert found == {
        "own": (0.5, 7, Rate("1/m")), "free": (2, None, None), "plain": (2, 4, Rate(5)),
    }  # fmt: skip


def test_all_priorities_count_and_cancelled_items_do_not(engine, look):
    engine.enqueue("a", [NewItem(f"a{n}", b"", priority=n) for n in range(10)])
    engine.enqueue("b", items("b1", "b2", "b3"))
    engine.cancel(["a4", "b2"])
    found = look()
    assert {name: row.waiting for name, row in rows_of(found).items()} == {"a": 9, "b": 2}
    engine.enqueue("b", [NewItem("b4", b"", priority=0)])
    assert rows_of(look())["b"].waiting == 3
    drain(engine)


@pytest.mark.parametrize(
    ("sort", "first"), [("backlog", "large"), ("running", "busy"), ("used", "heavy")]
)
def test_the_order(engine, look, sort, first):
    engine.enqueue("busy", items(*"123"))
    engine.enqueue("heavy", items("h", weight=9))
    assert len(engine.lease(count=4).items) == 4
    engine.enqueue("large", items(*(f"l{n}" for n in range(5))))
    assert look(sort, limit=1).rows[0].name == first
    assert len(look(sort, limit=2).rows) == 2
    assert len(look(sort).rows) == 3


def test_find_takes_a_part_of_a_name_in_any_case(engine, look):
    for name in ("Acme", "acme-2", "bolt", "*", "a\r\nb", "ünï"):
        engine.enqueue(name, items(f"1{name}"))
    assert {row.name for row in look(find="ACME").rows} == {"Acme", "acme-2"}
    assert [row.name for row in look(find="*").rows] == ["*"]
    assert [row.name for row in look(find="\r\n").rows] == ["a\r\nb"]
    assert [row.name for row in look(find="Ü").rows] == ["ünï"]
    assert look(find="none").rows == ()
    assert len(engine.lease(count=6).items) == 6
    assert [row.name for row in look(find="bolt").rows] == ["bolt"]


def test_the_oldest_item_of_a_partition(engine, look):
    """Its age counts from when it could be served; a delayed item that is not due has none."""
    engine.enqueue("young", items("y1"))
    engine.enqueue("old", items(str(uuid4())))
    engine.enqueue("later", items("l1", delay_ms=60_000))
    engine.enqueue("gone", items("g1"))
    engine.cancel(["g1"])
    for name, back_ms in (("young", 5_000), ("old", 90_000)):
        move_back(engine, name, back_ms)
    found = look("oldest")
    assert [row.name for row in found.rows] == ["old", "young"]
    assert 90 <= found.rows[0].oldest < 95
    assert 5 <= found.rows[1].oldest < 10
    assert [row.name for row in look("oldest", limit=1).rows] == ["old"]
    assert len(engine.lease(count=2).items) == 2
    engine.enqueue("young", items("y2"))
    assert {row.name: row.oldest is None for row in look("oldest").rows} == {
        "young": False, "old": True,
    }  # fmt: skip


def move_back(engine, partition, by_ms):
    """Make the records of a partition older than they are."""
    client = redis.Redis(connection_pool=engine.client.pool)
    for item_id in client.lrange(engine.keys.backlog(partition), 0, -1):
        text = client.hget(engine.keys["task"], item_id)
        *head, since, rest = text.split(b" ", 4)
        words = (*head, f"{int(since, 16) - by_ms:x}".encode(), rest)
        client.hset(engine.keys["task"], item_id, b" ".join(words))


def test_later_looks_follow_what_happens(engine, look):
    engine.enqueue("a", items("a1", "a2"))
    assert {row.name for row in look().rows} == {"a"}
    engine.enqueue("b", items("b1"))
    assert {row.name for row in look().rows} == {"a", "b"}
    drain(engine)
    assert look().rows == ()


def test_the_queue_s_own_state(engine, look):
    engine.set_policy("", max_in_flight=5, total_rate="1/h")
    engine.enqueue("a", items("a1", "a2"))
    assert len(engine.lease(count=2).items) == 1
    found = look()
    assert (found.paused, found.held_until_ms, found.max_in_flight) == (False, None, 5)
    assert 3_500_000 < found.limited_until_ms - found.at_ms <= 3_600_000
    assert found.next_wake_ms - found.at_ms <= 60_000  # the lease ends first
    engine.set_policy("", paused=True, hold=600)
    found = look()
    assert found.paused
    assert 590_000 < found.held_until_ms - found.at_ms <= 600_000


def test_many_partitions_are_looked_at_in_turn(engine, look, monkeypatch):
    """A flood is found, and what has gone is forgotten, within the calls it takes to see all."""
    monkeypatch.setattr(survey, "RENEWED_AT_ONCE", 20)
    monkeypatch.setattr(survey, "MARGIN", 3)
    monkeypatch.setattr(roster, "PIECE", 10)
    monkeypatch.setattr(roster, "OVERLAP", 2)
    for n in range(100):
        engine.enqueue(f"p{n:03d}", items(f"i{n}"))
    assert look().whole
    assert not look().whole
    engine.enqueue("p077", items(*(f"flood{n}" for n in range(9))))
    engine.enqueue("new", items(*(f"new{n}" for n in range(8))))
    wholes = [look(limit=2) for _ in range(15)]
    assert sum(each.whole for each in wholes) >= 2
    assert [row.name for row in wholes[-1].rows] == ["p077", "new"]
    assert wholes[-1].partitions == 101
    drain(engine)
    for _ in range(10):
        found = look()
    assert found.partitions == 0


def test_a_broken_connection_is_replaced(engine, look, redis_client):
    engine.enqueue("a", items("a1"))
    assert look().partitions == 1
    redis_client.client_kill_filter(_type="normal", skipme=True)
    assert look().partitions == 1


def test_counts_refused_by_the_server_are_an_error(engine, look, redis_client):
    engine.enqueue("a", items("a1"))
    redis_client.set("vtrr:q:backlog:b", "text")
    redis_client.zadd("vtrr:q:queue", {"b": 0})
    with pytest.raises(Refused, match="wrong kind of value"):
        look()
    redis_client.flushall()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"sort": "size"}, "sort must be one of backlog, oldest, running, used, not 'size'"),
     ({"limit": -1}, "limit must be from 0 to 1000, not -1"),
     ({"limit": 1001}, "limit must be from 0 to 1000, not 1001")],
)  # fmt: skip
def test_wrong_arguments_are_named(look, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        look(**arguments)


class TestWhy:
    """One situation each."""

    @pytest.fixture
    def kinds(self, engine):
        return lambda name: [reason.kind for reason in Survey(engine).why(name)]

    @pytest.mark.parametrize("name", ["paused", "held", "limited", "capped"])
    @pytest.mark.usefixtures("states")
    def test_a_partition_that_may_not_be_served(self, kinds, name):
        assert kinds(name) == [name]
        assert kinds(f"{name}2") == [name, "behind"]

    def test_serves_ahead(self, states, kinds):
        """And that nobody is there to serve."""
        for n in range(3):
            states.enqueue(f"a{n}", items(f"a{n}0"))
        ahead = next(each for each in Survey(states).why("ready") if each.kind == "ahead")
        assert ahead.count == 3
        assert "3 partitions are served before 'ready'" in ahead.text
        assert kinds("ready") == ["no worker", "ahead"]

    def test_a_worker_that_listens_is_one(self, states, kinds):
        hints = states.client.hear(states.keys.wake_channel)
        next(hints)
        assert kinds("ready") == ["ahead"]
        hints.close()

    def test_what_runs(self, states, kinds):
        assert kinds("alone") == ["running"]
        assert kinds("alone0") == ["running"]
        states.cancel(["alone0"])
        assert kinds("alone0") == ["running", "cancelled"]

    def test_what_is_delayed(self, states):
        (reason,) = Survey(states).why("later")
        assert (reason.kind, reason.partition) == ("delayed", "ready")

    def test_an_item_with_a_uuid(self, engine, kinds):
        waiting, running = str(uuid4()), str(uuid4())
        engine.enqueue("a", items(running, waiting))
        assert engine.lease().items
        assert kinds(running) == ["running"]
        assert kinds(waiting) == ["no worker", "ahead", "behind"]

    def test_what_is_dead(self, engine):
        engine.enqueue("a", items("a1"))
        (lease,) = engine.lease().items
        engine.bury("a1", lease.token, "it broke")
        (reason,) = Survey(engine).why("a1")
        assert (reason.kind, reason.partition) == ("dead", "a")
        assert "it broke" in reason.text

    def test_the_queue_as_a_whole(self, engine, kinds):
        engine.enqueue("a", items("a1", "a2", "a3"))
        engine.set_policy("", max_in_flight=1)
        assert len(engine.lease(count=2).items) == 1
        assert kinds("a") == ["queue full", "no worker", "ahead"]
        engine.set_policy("", paused=True)
        assert kinds("a")[0] == "queue paused"
        engine.set_policy("", paused=False, hold=60, max_in_flight=None)
        assert kinds("a")[0] == "queue held"
        engine.set_policy("", hold=None, total_rate="1/h")
        assert kinds("a")[0] == "no worker"
        assert len(engine.lease(count=2).items) == 1
        assert kinds("a")[0] == "queue limited"

    def test_the_place_among_one_s_own(self, engine):
        """Items of a lower number come first."""
        engine.enqueue("a", items("a1", "a2"))
        engine.enqueue("a", [NewItem("first", b"", priority=0), NewItem("last", b"", priority=9)])
        counts = {
            name: next(each.count for each in Survey(engine).why(name) if each.kind == "behind")
            for name in ("first", "a1", "a2", "last")
        }
        assert list(counts.values()) == [0, 1, 2, 3]

    def test_what_nobody_knows(self, states, kinds):
        states.set_policy("quiet", share=2)
        assert kinds("quiet") == ["idle"]
        assert kinds("nobody") == ["unknown"]
        assert kinds("") == ["unknown"]


def test_a_partition_s_name_may_be_an_id(engine):
    engine.enqueue("x", items("x"))
    assert [each.kind for each in Survey(engine).why("x")] == [
        "no worker", "ahead", "no worker", "ahead", "behind",
    ]  # fmt: skip
