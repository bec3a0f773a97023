"""lease.lua leases the next items in fair order."""

import pytest

from tests.clock import LEASE_MS, START_MS

EXPIRY = START_MS + LEASE_MS


def test_the_first_item_is_leased(scripts):
    """Its record stays, its partition is charged, and the lease says who, what and until when."""
    scripts.put("acme", "one", "two", weight=3)
    reply = scripts.call("lease", "t1", "t1", holder="me")
    record = b"3   %x 4 acmeone!" % START_MS
    assert reply == ["leased", b"t1", START_MS, 0, 0, b"", EXPIRY, b"one", record]
    stored = scripts.stored()
    assert stored["lease"] == {b"t1": b"%d 3 %d 3 4 oneacmeme" % (START_MS, EXPIRY)}
    assert stored["inflight"] == {b"t1": EXPIRY}
    assert "running" not in stored  # it is kept while there are policies only
    assert stored["queue"] == {b"acme": 3.0}
    assert stored["backlog:acme"] == [b"two"]
    assert set(stored["task"]) == {b"one", b"two"}


def test_partitions_take_turns(scripts):
    """The least tag goes first, equal ones by name, and the clock follows what is served."""
    scripts.put("b", "b1", "b2", "b3")
    scripts.put("a", "a1", "a2", weight=2)
    assert scripts.take(*"12345") == ["a1", "b1", "b2", "a2", "b3"]
    assert scripts.stored()["current_virtual_time"] == b"2"


def test_fewer_come_when_fewer_wait(scripts):
    scripts.put("a", "a1", "a2")
    assert scripts.take("t1", "t2", "t3") == ["a1", "a2"]
    stored = scripts.stored()
    assert not stored.keys() & {"queue", "backlog:a"}
    assert stored["partition_virtual_time"] == {b"a": 2.0}


def test_nothing_to_lease_tells_when_to_come_again(scripts):
    """The next expiry or due time, whichever is first, or nothing."""
    assert scripts.call("lease", "t1", "t1") == ["empty", b"t1", START_MS, 0, 0, b""]
    scripts.put("a", "a1")
    scripts.take("t1")
    assert scripts.call("lease", "t2", "t2")[5] == str(EXPIRY).encode()
    scripts.put("a", "a2", "a3", delay_ms=7)
    reply = scripts.call("lease", "t2", "t2")
    assert reply == ["empty", b"t2", START_MS, 0, 0, str(START_MS + 7).encode()]


def test_the_next_wake_is_a_whole_millisecond(scripts):
    """However many items are due at the same: the place among them is a fraction."""
    scripts.put("a", "a1", delay_ms=7)
    scripts.redis_client.zadd(scripts.keys["delayed"], {"a1": START_MS + 7 + 4095 / 4096})
    assert scripts.call("lease", "t1", "t1")[5] == str(START_MS + 7).encode()


def test_a_call_that_comes_too_late_does_nothing(scripts, clock):
    """Who sent it has given up waiting for the reply."""
    scripts.put("a", "a1")
    clock.advance(10)
    before = scripts.stored()
    reply = scripts.call("lease", "t1", "t1", valid_until=START_MS + 9)
    assert reply == ["late", b"t1", START_MS + 10]
    assert scripts.stored() == before
    assert scripts.take("t1", valid_until=START_MS + 10) == ["a1"]


@pytest.mark.parametrize("count", [1, 3])
def test_a_repeated_call_leases_nothing_new(scripts, count):
    """The same tokens return what they hold."""
    scripts.put("a", "a1", "a2", "a3", "a4")
    tokens = [f"t{n}" for n in range(count)]
    reply = scripts.twice("lease", tokens[0], *tokens)
    assert reply[7::2] == [b"a1", b"a2", b"a3"][:count]


def test_a_repeated_call_returns_what_is_left_and_goes_on(scripts, clock):
    """A renewed lease tells when it ends, a token without a lease takes the next item."""
    scripts.put("a", "a1", "a2")
    scripts.take("t1", "t2", "t3")
    scripts.call("renew", "e", "a2", "t2", lease_ms=LEASE_MS + 5)
    clock.advance(LEASE_MS)
    scripts.put("a", "a3")
    reply = scripts.call("lease", "t1", "t1", "t2", "t3", replay=1)
    assert reply[7::2] == [b"a3", b"a2", b"a1"]
    assert reply[6] == EXPIRY + 5  # the earliest of them
    assert reply[12] == b" 1  %x 1 aa1!" % START_MS


@pytest.mark.parametrize(("position", "order"), [("back", ["b", "c", "a"]), ("front", list("abc"))])
def test_an_expired_lease_is_put_back_and_counted(scripts, clock, position, order):
    """At the very millisecond; its token holds nothing from then on."""
    scripts.put("p", "a", "b", "c")
    scripts.take("t0")
    clock.advance(LEASE_MS - 1)
    assert scripts.call("lease", "t9", "t9", position=position)[7] == b"b"
    scripts.call("release", "t9", item_id="b", position="front")
    clock.advance(1)
    assert scripts.take("t1", "t2", "t3", position=position) == order
    assert scripts.stored()["task"][b"a"] == b" 1  %x 1 pa!" % START_MS
    assert scripts.call("ack", "t0", item_id="a")[0] == "lost"


def test_a_call_looks_at_eight_expired_leases(scripts, clock):
    """So that it takes no longer after a mass death; the next one goes on."""
    scripts.put("a", *(f"a{n:02}" for n in range(20)))
    scripts.take(*(f"t{n:02}" for n in range(20)))
    clock.advance(LEASE_MS)
    assert len(scripts.take(*(f"u{n}" for n in range(20)))) == 8
    assert len(scripts.take(*(f"v{n}" for n in range(20)))) == 8
    assert len(scripts.take(*(f"w{n}" for n in range(20)))) == 4


def test_leases_that_expire_together_are_put_first_in_their_old_order(scripts, clock):
    """`front` gives a partition's items back as they were before their worker died."""
    scripts.put("a", "a1", "a2", "a3", "a4", "a5")
    scripts.take("t1", "t2", "t3", "t4")
    clock.advance(LEASE_MS)
    tokens = ("u1", "u2", "u3", "u4", "u5")
    assert scripts.take(*tokens, position="front") == ["a1", "a2", "a3", "a4", "a5"]


def test_due_items_are_promoted(scripts, clock):
    """At the very millisecond, behind what waits already, eight in a call."""
    scripts.put("a", *(f"late{n}" for n in range(9)), delay_ms=10)
    scripts.put("a", "early")
    clock.advance(9)
    assert scripts.take("t0", "t1") == ["early"]
    clock.advance(1)
    tokens = [f"u{n}" for n in range(9)]
    assert scripts.take(*tokens) == [f"late{n}" for n in range(8)]
    assert scripts.take("v0") == ["late8"]


def test_the_trigger_that_caused_the_call_leaves_the_ledger(scripts):
    """The next ones are entered in the same step, so that a pool of any size fills up."""
    budget = {"triggers_most": 2}
    scripts.put("a", "a1", "a2", "a3", "a4", triggers_prefix="x", **budget)
    reply = scripts.call("lease", "t1", "t1", trigger_id="x-1", triggers_prefix="y", **budget)
    assert reply[3:5] == [1, 3]
    assert set(scripts.stored()["triggers"]) == {b"x-2", b"y-1"}


def test_a_repeated_call_sends_the_same_triggers(scripts):
    scripts.put("a", "a1", "a2", "a3")
    arguments = {"triggers_most": 2, "triggers_prefix": "y", "trigger_id": "x-1"}
    assert scripts.twice("lease", "t1", "t1", **arguments)[3:5] == [2, 2]


def test_tags_are_moved_back_before_they_lose_digits(scripts):
    """Past 1e12 the clock is taken off every tag, kept ones too; the order stays."""
    scripts.put("idle", "i1", weight=4)
    scripts.take("t0")
    scripts.put("a", "a1", "a2")
    scripts.put("b", "b1", "b2")
    keys, base = scripts.keys, 2e12
    scripts.redis_client.set(keys["current_virtual_time"], "2000000000000")
    scripts.redis_client.zadd(keys["queue"], {"a": base + 0.5, "b": base + 0.25})
    scripts.redis_client.zadd(keys["partition_virtual_time"], {"idle": base + 4})
    assert scripts.take("t1") == ["b1"]
    stored = scripts.stored()
    assert stored["queue"] == {b"a": 0.5, b"b": 1.25}
    assert stored["partition_virtual_time"] == {b"idle": 4.0}
    assert stored["current_virtual_time"] == b"0.25"


def test_it_refuses_keys_of_another_layout(scripts, foreign):
    assert scripts.call("lease", "t1", "t1") == ["schema", b"t1", foreign]
