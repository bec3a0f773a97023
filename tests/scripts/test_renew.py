"""renew.lua pushes back the expiry of a lease that is still held."""

from tests.clock import LEASE_MS, START_MS


def test_the_new_time_counts_from_now(scripts, clock):
    """It may be shorter than what was left; all else about the lease stays."""
    scripts.put("acme", "one", weight=2)
    scripts.take("t1")
    before = scripts.stored()
    clock.advance(100)
    for lease_ms in (LEASE_MS, 50):
        expiry = START_MS + 100 + lease_ms
        reply = scripts.twice("renew", "e", "one", "t1", lease_ms=lease_ms)
        assert reply == ["renewed", b"e", START_MS + 100, 0, 0, b"", b"%d" % expiry]
        stored = scripts.stored()
        assert stored["inflight"] == {b"t1": expiry}
        assert stored["lease"] == {b"t1": b"%d 2 %d 3 4 oneacmeh" % (START_MS, expiry)}
        assert {**stored, "inflight": 0, "lease": 0} == {**before, "inflight": 0, "lease": 0}


def test_a_renewed_lease_expires_at_its_new_time(scripts, clock):
    scripts.put("a", "a1")
    scripts.take("t1")
    clock.advance(LEASE_MS - 1)
    scripts.call("renew", "e", "a1", "t1", lease_ms=10)
    clock.advance(9)
    assert scripts.take("t2") == []
    clock.advance(1)
    assert scripts.take("t2") == ["a1"]


def test_a_token_that_does_not_hold_the_item_changes_nothing(scripts, clock):
    """Neither another's, nor one of which the lease has expired and was given on."""
    scripts.put("a", "a1", "a2")
    scripts.take("t1", "t2")
    assert scripts.call("renew", "e", "a1", "t2")[7:] == [b"t2"]
    clock.advance(LEASE_MS)
    scripts.take("t3", "t4")
    before = scripts.stored()
    assert scripts.call("renew", "e", "a1", "t1", "a2", "t2")[7:] == [b"t1", b"t2"]
    assert scripts.stored() == before


def test_a_lease_past_its_expiry_is_saved_while_nobody_looked(scripts, clock):
    """As long as the item has not been put back, nobody else has it."""
    scripts.put("a", "a1")
    scripts.take("t1")
    clock.advance(LEASE_MS + 1)
    assert scripts.call("renew", "e", "a1", "t1")[7:] == []
    assert scripts.take("t2") == []


def test_many_leases_are_renewed_at_once(scripts, clock):
    """The reply names those that are lost, the others are renewed."""
    scripts.put("a", "a1", "a2", "a3")
    scripts.take("t1", "t2", "t3")
    scripts.call("ack", "t2", item_id="a2")
    clock.advance(100)
    pairs = ("a1", "t1", "a2", "t2", "a3", "t3")
    assert scripts.twice("renew", "e", *pairs, lease_ms=LEASE_MS)[7:] == [b"t2"]
    expiry = START_MS + 100 + LEASE_MS
    assert scripts.stored()["inflight"] == {b"t1": expiry, b"t3": expiry}


def test_it_refuses_keys_of_another_layout(scripts, foreign):
    assert scripts.call("renew", "e", "a1", "t1") == ["schema", b"e", foreign]
