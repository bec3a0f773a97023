"""Engine.lease and what a holder can do with a lease."""

from datetime import UTC, datetime

import pytest

from tests.clock import START_MS, set_clock
from tests.queues import audited_engine, drain, items
from vtrr_queue.engine import Engine
from vtrr_queue.engine.serving import MOST_LEASES, MOST_RENEWED
from vtrr_queue.errors import ArgumentError, LeaseLost, Unavailable
from vtrr_queue.inspector import Inspector
from vtrr_queue.model import Lease, Reclaimed, Settled, TriggerBudget, Wake

LEASE_MS = 1000


@pytest.fixture
def clock(redis_client):
    with set_clock(redis_client) as clock:
        yield clock


@pytest.fixture
def engine(redis_client, clock):
    with audited_engine(redis_client, lease_seconds=LEASE_MS / 1000) as engine:
        yield engine


def test_a_lease_tells_all_about_its_item(engine):
    engine.enqueue("A", items("a1", weight=2.5))
    (lease,) = engine.lease(holder="me").items
    expected = Lease("a1", lease.token, "A", 0, 0, START_MS + LEASE_MS, 2.5, b"a1", START_MS)
    assert lease == expected
    assert len(lease.token) == 32


@pytest.mark.parametrize("count", [0, -1, 1001])
def test_a_count_out_of_range_is_refused(engine, count):
    with pytest.raises(ArgumentError, match=f"count must be from 1 to 1000, not {count}"):
        engine.lease(count=count)


def test_many_are_leased_in_one_call(engine):
    """In fair order, each under a token of its own."""
    engine.enqueue("A", items(*(f"a{n:03}" for n in range(600))))
    engine.enqueue("B", items(*(f"b{n:03}" for n in range(600))))
    leases = engine.lease(count=1000).items
    assert [x.item_id for x in leases] == [f"{p}{n:03}" for n in range(500) for p in "ab"]
    assert len({x.token for x in leases}) == 1000


def test_an_empty_lease_says_when_to_come_again(engine):
    assert engine.lease().wake == Wake((), None, START_MS, 0)
    engine.enqueue("A", items("a1", delay_ms=250))
    assert engine.lease().wake.next_wake_ms == START_MS + 250


@pytest.mark.parametrize(("position", "order"), [("back", "231"), ("front", "123")])
def test_an_expired_item_goes_where_the_option_says(redis_client, clock, position, order):
    """Last or first of its partition, with its timeout counted."""
    with audited_engine(redis_client, lease_seconds=1, reclaim_position=position) as engine:
        engine.enqueue("A", items("1", "2", "3"))
        (lease,) = engine.lease().items
        clock.advance(LEASE_MS)
        served = drain(engine)
        assert "".join(x.item_id for x in served) == order
        assert {x.item_id: x.timeouts for x in served} == {"1": 1, "2": 0, "3": 0}
        assert not engine.ack(lease.item_id, lease.token).held


def test_items_of_a_dead_worker_keep_their_order(engine, clock):
    """What was leased in one call expires at one time and is put back as it was."""
    names = [f"a{n}" for n in range(8)]
    engine.enqueue("A", items(*names))
    for _ in range(5):
        assert [x.item_id for x in engine.lease(count=8).items] == names
        clock.advance(LEASE_MS)


def test_renewing_moves_the_expiry(engine, clock):
    """From now on, by the queue's own time or another."""
    engine.enqueue("A", items("a1"))
    (lease,) = engine.lease().items
    clock.advance(400)
    expiry = engine.renew("a1", lease.token)
    assert expiry == datetime.fromtimestamp((START_MS + 1400) / 1000, UTC)
    assert engine.renew("a1", lease.token, 2.5).timestamp() * 1000 == START_MS + 2900
    clock.advance(2499)
    assert engine.lease().items == ()
    clock.advance(1)
    assert len(engine.lease().items) == 1
    with pytest.raises(LeaseLost, match="the lease of item 'a1' is no longer held"):
        engine.renew("a1", lease.token)


def test_many_leases_are_renewed_in_calls_of_five_hundred(engine, clock):
    """Each is renewed, and one that is gone is reported, at whichever end of a call it stands."""
    total, gone_at = 2 * MOST_RENEWED + 1, {0, MOST_RENEWED - 1, MOST_RENEWED, 2 * MOST_RENEWED}
    engine.enqueue("A", items(*(f"a{number}" for number in range(total))))
    leases = []
    while leased := engine.lease(count=MOST_LEASES).items:
        leases += leased
    gone = {leases[at].token for at in gone_at}
    assert all(engine.ack(x.item_id, x.token).held for x in leases if x.token in gone)
    clock.advance(400)
    before = engine.client.calls
    assert engine.renew_many([(x.item_id, x.token) for x in leases]) == gone
    assert engine.client.calls - before == 3
    held = Inspector(engine).leases(limit=total)
    assert {x.token for x in held} == {x.token for x in leases} - gone
    assert {x.expires_at_ms for x in held} == {START_MS + 400 + LEASE_MS}


def test_nothing_to_renew_is_no_call(engine):
    before = engine.client.calls
    assert engine.renew_many([]) == set()
    assert engine.client.calls == before


def test_a_slow_worker_can_not_touch_the_newer_lease(engine, clock):
    """Its acks, releases, retries and burials say so and change nothing."""
    engine.enqueue("A", items("a1"))
    (slow,) = engine.lease().items
    clock.advance(LEASE_MS)
    (fresh,) = engine.lease().items
    token = slow.token
    assert not engine.ack("a1", token).held
    assert not engine.release("a1", token).held
    assert not engine.retry("a1", token, delay_seconds=0, retries=1, body=b"").held
    assert not engine.bury("a1", token, "why").held
    assert (fresh.timeouts, fresh.retries, fresh.body) == (1, 0, b"a1")
    assert engine.ack("a1", fresh.token).held


@pytest.mark.parametrize(
    ("options", "order", "timeouts"),
    [
        ({}, "12", 0),
        ({"position": "back"}, "21", 0),
        ({"timed_out": True}, "21", 1),
        ({"timed_out": True, "position": "front"}, "12", 1),
    ],
)
def test_a_released_item_goes_where_it_is_sent(engine, options, order, timeouts):
    """First by default, as an expired one when it counts as such."""
    engine.enqueue("A", items("1", "2"))
    (lease,) = engine.lease().items
    assert engine.release("1", lease.token, **options).held
    served = drain(engine)
    assert "".join(x.item_id for x in served) == order
    assert {x.item_id: x.timeouts for x in served} == {"1": timeouts, "2": 0}


def test_a_retry_comes_back_at_its_time(engine, clock):
    """With its count and its new payload; waiting for it is no timeout."""
    engine.enqueue("A", items("a1"))
    (lease,) = engine.lease().items
    settled = engine.retry("a1", lease.token, delay_seconds=0.75, retries=2, body=b"new")
    assert settled == Settled(True, Wake((), START_MS + 750, START_MS, 0))
    clock.advance(749)
    assert engine.lease().items == ()
    clock.advance(1)
    (again,) = engine.lease().items
    assert (again.retries, again.timeouts, again.body) == (2, 0, b"new")


def test_reclaiming_goes_on_until_nothing_is_due(engine, clock):
    """However many there are; triggers are asked for in each round."""
    engine.enqueue("A", items(*(f"a{n:03}" for n in range(250))))
    engine.lease(count=250)
    engine.enqueue("B", items(*(f"b{n:03}" for n in range(320)), delay_ms=LEASE_MS))
    clock.advance(LEASE_MS)
    result = engine.reclaim(budget=TriggerBudget(4))
    assert (result.count, len(result.wake.triggers), result.wake.waiting) == (250, 4, 570)
    assert engine.reclaim() == Reclaimed(0, Wake((), None, clock.now_ms, 570))


def test_a_call_that_came_too_late_is_sent_again(engine, clock, redis_client):
    """The server's clock was moved forward, so that it refused what had just been sent."""
    engine.enqueue("A", items("a1", "a2"))
    engine.lease()
    clock.advance(3_600_000)
    calls = engine.client.calls
    assert [x.item_id for x in engine.lease().items] == ["a2"]
    assert engine.client.calls - calls == 2


def test_calls_that_always_come_too_late_are_given_up(engine, monkeypatch):
    """A clock that cannot be followed is an error of its own, not an empty queue."""
    engine.enqueue("A", items("a1"))
    monkeypatch.setattr(engine.client, "server_now_ms", lambda: 1)
    with pytest.raises(Unavailable, match="lease: Redis did not answer"):
        engine.lease()


def test_triggers_follow_the_leases(engine):
    """The one that came is taken off the ledger; acks and releases replace it."""
    budget = TriggerBudget(2)
    (first, _) = engine.enqueue("A", items("a1", "a2", "a3", "a4"), budget=budget).wake.triggers
    leased = engine.lease(trigger_id=first, budget=budget)
    assert (len(leased.wake.triggers), leased.wake.waiting) == (1, 3)
    (lease,) = leased.items
    assert engine.ack(lease.item_id, lease.token, budget=budget).wake.triggers == ()
    engine.forget_triggers(leased.wake.triggers)
    (lease,) = engine.lease().items
    released = engine.release(lease.item_id, lease.token, budget=budget)
    assert (len(released.wake.triggers), released.wake.waiting) == (1, 3)


def test_many_items_are_leased_by_several_calls(redis_client):
    """In the order of one call, each a short one."""
    engine = Engine(redis_client, "q")
    for name in "abc":
        engine.enqueue(name, items(*(f"{name}{n:03}" for n in range(120))))
    redis_client.config_resetstat()
    leased = engine.lease(count=350).items
    assert [lease.item_id for lease in leased[:7]] == [
        "a000", "b000", "c000", "a001", "b001", "c001", "a002",
    ]  # fmt: skip
    assert len({lease.item_id for lease in leased}) == 350
    assert [held.item_id for held in Inspector(engine).leases()] == [x.item_id for x in leased]
    assert redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] >= 4
    assert len(engine.lease(count=350).items) == 10


def test_what_is_leased_is_told_when_the_next_call_fails(server, redis_client, proxy):
    """Or it would wait for the end of its lease."""
    engine = Engine(redis_client, "q")
    engine.enqueue("a", items(*(f"a{n:03}" for n in range(300))))
    with type(redis_client).from_url(proxy.url()) as proxied:
        far = Engine(proxied, "q", socket_timeout=0.3)
        first = far.lease().items
        calls = far.client.call

        def call(*words):
            reply = calls(*words)
            proxy.refuse()
            return reply

        far.client.call = call
        leased = far.lease(count=250).items
        assert [len(first), len(leased)] == [1, 100]
