"""enqueue.lua stores items once, in order, and makes their partition servable."""

import pytest

from tests.clock import START_MS


def test_an_item_is_stored_with_its_record(scripts):
    """The record keeps weight, counts, partition and body; the partition starts at the clock."""
    reply = scripts.put("acme", "one", weight="0.5")
    assert reply == ["enqueued", b"e", START_MS]
    assert scripts.stored() == {
        "schema": b"5",
        "task": {b"one": b"0.5   %x 4 acmeone!" % START_MS},
        "backlog:acme": [b"one"],
        "queue": {b"acme": 0.0},
    }


def test_items_wait_in_the_order_of_the_call(scripts):
    """Neither ids nor an earlier call change it."""
    scripts.put("a", "z", "m")
    scripts.put("a", "b", "a")
    assert scripts.stored()["backlog:a"] == [b"z", b"m", b"b", b"a"]


def test_known_ids_are_skipped_and_named(scripts):
    """Waiting, running and delayed ids stand as they are, and so does the first of two equal."""
    scripts.put("a", "running", "waiting")
    scripts.take("t1")
    scripts.put("a", "delayed", delay_ms=5)
    before = scripts.stored()
    reply = scripts.put("b", "delayed", "running", "waiting")
    assert reply == ["enqueued", b"e", START_MS, 0, 0, b"", b"delayed", b"running", b"waiting"]
    assert scripts.stored() == before
    assert scripts.put("b", "new", "new")[6:] == [b"new"]
    assert scripts.stored()["backlog:b"] == [b"new"]


def test_on_request_known_ids_refuse_the_whole_call(scripts):
    """Nothing is stored, not even the entries before the known one."""
    scripts.put("a", "known")
    before = scripts.stored()
    reply = scripts.put("a", "new", "known", on_duplicate="error")
    assert reply == ["duplicate", b"e", START_MS, 0, 0, b"", b"known"]
    assert scripts.stored() == before


@pytest.mark.parametrize("on_duplicate", ["skip", "error"])
def test_a_repeated_call_stores_nothing_twice(scripts, on_duplicate):
    """Not even when the items were served and finished in between."""
    scripts.put("a", "known")
    arguments = {"producer": "p2", "call": 7, "on_duplicate": on_duplicate}
    entries = ("new", 1, "", "late", "1+9", "")
    reply = scripts.twice("enqueue", "e", *entries, **arguments)
    scripts.take("t1", "t2")
    scripts.call("ack", "t1", item_id="known")
    scripts.call("ack", "t2", item_id="new")
    assert scripts.call("enqueue", "e", *entries, **arguments) == reply
    assert set(scripts.stored()["task"]) == {b"late"}


def test_a_repeated_call_names_the_same_duplicates(scripts):
    """Ids with spaces, quotes and other scripts come back unharmed."""
    odd = ("two words", '"\\quoted', "ключ", "")
    scripts.put("a", *odd)
    entries = [word for item_id in (*odd, "new") for word in (item_id, 1, "")]
    reply = scripts.twice("enqueue", "e", *entries)
    assert reply[6:] == [item_id.encode() for item_id in odd]


def test_calls_of_another_number_or_producer_are_new(scripts):
    """Only the last call of a producer is known; its mark goes by itself."""
    for producer, call in (("p1", 1), ("p1", 2), ("p2", 1)):
        reply = scripts.put("a", f"{producer}-{call}", producer=producer, call=call)
        assert reply[0] == "enqueued"
    assert scripts.stored()["backlog:a"] == [b"p1-1", b"p1-2", b"p2-1"]
    assert 0 < scripts.redis_client.pttl(scripts.keys["recent:p1"]) <= 10_000


def test_a_thousand_known_ids_fit_into_one_reply(scripts):
    """As many as one call of the engine may hold, twice over."""
    item_ids = [f"i{n}" for n in range(1000)]
    scripts.put("a", *item_ids)
    assert scripts.put("a", *item_ids)[6:] == [item_id.encode() for item_id in item_ids]


def test_delayed_items_wait_for_their_time(scripts):
    """They are in no backlog and their partition is not servable."""
    scripts.put("a", "later", delay_ms=1500)
    stored = scripts.stored()
    assert stored["delayed"] == {b"later": START_MS + 1500}
    assert set(stored) == {"schema", "task", "delayed"}


def test_delayed_items_of_one_time_keep_their_order(scripts, clock):
    """Ids that sort backwards don't turn it round, nor do several calls."""
    scripts.put("a", "z", "y", delay_ms=10)
    clock.advance(4)
    scripts.put("a", "x", "w", delay_ms=6)
    clock.advance(6)
    assert scripts.take("t1", "t2", "t3", "t4") == ["z", "y", "x", "w"]


def test_more_items_of_one_time_than_there_are_fractions_are_due_then(scripts, clock):
    """What comes after the 4,096th is due no later than the others."""
    for call in range(9):
        scripts.put("a", *(f"i{call * 500 + n:04}" for n in range(500)), delay_ms=1)
    clock.advance(1)
    reply = scripts.call("reclaim", "e", most=10_000)
    assert (reply[5], reply[6:]) == (b"", [0, 4500, 0, 0])
    assert scripts.stored()["backlog:a"] == [b"i%04d" % n for n in range(4500)]


def test_a_dead_letter_lives_again(scripts):
    """Enqueuing its id takes it off the dead letters."""
    scripts.put("a", "one", "two")
    scripts.take("t1")
    scripts.call("bury", "t1", item_id="one")
    assert scripts.put("b", "one", "three")[6:] == []
    stored = scripts.stored()
    assert not stored.keys() & {"dead", "dead_index"}
    assert stored["backlog:b"] == [b"one", b"three"]


def test_a_partition_comes_back_at_the_clock(scripts):
    """Idling earns nothing: its old tag is behind the clock and forgotten."""
    scripts.put("idle", "i1")
    scripts.put("busy", "b1", "b2", "b3", "b4", weight=5)
    scripts.take("t1", "t2", "t3", "t4")  # idle is served once, busy's tag goes on
    assert scripts.stored()["current_virtual_time"] == b"10"
    scripts.put("idle", "i2")
    assert scripts.stored()["queue"] == {b"idle": 10.0, b"busy": 15.0}


def test_a_partition_in_debt_comes_back_where_it_was(scripts):
    """A tag ahead of the clock is kept while nothing waits."""
    scripts.put("big", "b1", weight=8)
    scripts.take("t1")
    assert scripts.stored()["partition_virtual_time"] == {b"big": 8.0}
    scripts.put("big", "b2")
    stored = scripts.stored()
    assert stored["queue"] == {b"big": 8.0}
    assert "partition_virtual_time" not in stored


def test_it_says_how_many_triggers_to_send(scripts, clock):
    """As many as items wait, less those outstanding; lost ones are replaced after a time.

    A reply that would only say "none" ends before that.
    """
    budget = {"triggers_most": 3}
    reply = scripts.put("a", "a1", "a2", triggers_prefix="x", **budget)
    assert reply[3:5] == [2, 2]
    clock.advance(1)
    assert scripts.put("a", "a3", "a4", triggers_prefix="y", **budget)[3:5] == [1, 4]
    assert scripts.put("a", "a5", triggers_prefix="z", **budget)[3:] == []
    assert set(scripts.stored()["triggers"]) == {b"x-1", b"x-2", b"y-1"}
    clock.advance(59_999)
    assert scripts.put("a", "a6", triggers_prefix="w", **budget)[3:5] == [2, 6]
    assert set(scripts.stored()["triggers"]) == {b"x-1", b"x-2", b"y-1", b"w-1", b"w-2"}


def test_triggers_that_nobody_takes_are_replaced_ever_more_rarely(scripts, clock):
    """A day without a worker leaves ten rounds of them in the broker, and no more."""
    sent = []
    scripts.put("a", "b1", "b2")
    for minute in range(24 * 60):
        reply = scripts.put("a", f"i{minute}", triggers_most=3, triggers_prefix=f"x{minute}")
        sent += [minute] * sum(reply[3:4])
        clock.advance(60_000)
    assert len(sent) == 30
    assert sorted(set(sent)) == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_a_worker_that_comes_clears_the_ledger_of_lost_triggers(scripts, clock):
    """Those older than its own by the timeout; one that pulls by itself, those older than now."""
    budget = {"triggers_most": 2}
    for minute in range(4):
        scripts.put("a", f"i{minute}", f"j{minute}", triggers_prefix=f"x{minute}", **budget)
        clock.advance(60_000)
    assert len(scripts.stored()["triggers"]) == 6
    scripts.call("lease", "t1", "t1", trigger_id="x2-1", triggers_prefix="y", **budget)
    assert set(scripts.stored()["triggers"]) == {b"x2-2", b"y-1", b"y-2"}
    scripts.call("lease", "t2", "t2", pulled=1, **budget)
    assert set(scripts.stored()["triggers"]) == {b"y-1", b"y-2"}


def test_it_asks_for_no_more_triggers_than_items_came(scripts):
    """A later call does not make up for what others have not sent."""
    scripts.put("a", "a1", "a2")
    assert scripts.put("a", "a3", triggers_most=3, items=1)[3:5] == [1, 3]


@pytest.mark.parametrize("weight", ["0", "0.0009", "1e10", "inf", "nan", "0x10", "-1", "", "1 2"])
def test_a_weight_that_is_none_refuses_the_whole_call(scripts, weight):
    """Lua's tonumber would take some of these."""
    reply = scripts.call("enqueue", "e", "a1", 1, "", "a2", weight, "")
    assert [reply[0], *reply[6:]] == ["weight", b"a2", weight.encode()]
    assert scripts.stored() == {}


def test_a_repeated_call_on_a_queue_at_rest_leaves_nothing(scripts):
    """Its items have come and gone; not even the layout number comes back."""
    call = {"producer": "p2", "call": 7}
    scripts.call("enqueue", "e", "a1", 1, "", **call)
    scripts.take("t")
    scripts.call("ack", "t", item_id="a1")
    scripts.call("enqueue", "e", "a1", 1, "", **call)
    assert scripts.redis_client.keys("vtrr:*") == [f"{scripts.keys['recent']}:p2".encode()]


def test_a_repeated_call_sends_the_same_triggers(scripts):
    """The first reply was lost, so nobody has published them."""
    entries = ("a1", 1, "", "a2", 1, "", "a3", 1, "")
    reply = scripts.twice("enqueue", "e", *entries, triggers_most=2, triggers_prefix="x")
    assert reply[3:5] == [2, 3]


def test_no_trigger_is_sent_for_what_must_wait_or_runs(scripts):
    """Only items in a backlog count."""
    scripts.put("a", "a1")
    scripts.take("t1")
    scripts.put("a", "a2", "a3", delay_ms=5)
    assert scripts.put("a", "a4", triggers_most=9)[3:5] == [1, 1]


def test_it_tells_those_who_listen(scripts, heard):
    """`ready` when something became servable, `later` when something was set aside."""
    scripts.put("a", "a1", channel="wake")
    assert heard() == [b"ready"]
    scripts.put("a", "a2", delay_ms=1, channel="wake")
    assert heard() == [b"later"]
    scripts.put("a", "a3")
    assert heard() == []


def test_it_refuses_keys_of_another_layout(scripts, foreign):
    """Nothing is stored beside them."""
    assert scripts.put("a", "a1") == ["schema", b"e", foreign]


def test_a_partition_without_room_takes_nothing(scripts):
    """All or nothing; what is known already needs no room, nor does what is delayed by a retry."""
    scripts.call("set_policy", "e", "backlog", "3", partition="a")
    scripts.put("a", "a1", "a2", fresh=2)
    before = scripts.stored()
    reply = scripts.put("a", "a3", "a4", fresh=2)
    assert reply == ["full", b"e", START_MS, 0, 0, b"", 2, 3]
    assert scripts.stored() == before
    scripts.put("a", "a1", "a3", fresh=2)
    assert scripts.take("t1", "t2", "t3") == ["a1", "a2", "a3"]


def test_delayed_items_need_no_room_yet(scripts):
    scripts.call("set_policy", "e", "backlog", "1", partition="a")
    scripts.put("a", "a1", fresh=1)
    assert scripts.put("a", "a2", fresh=1, delay_ms=500)[0] == "enqueued"


def test_later_parts_of_a_call_are_not_refused(scripts):
    """Their room was asked for with the first."""
    scripts.call("set_policy", "e", "backlog", "2", partition="a")
    scripts.put("a", "a1", "a2", fresh=2)
    assert scripts.put("a", "a3", fresh=0)[0] == "enqueued"


def test_priorities_are_strict_inside_a_partition(scripts):
    """Between partitions they mean nothing."""
    scripts.put("a", "a5", "b5")
    scripts.put("a", "a9", weight="1@9")
    scripts.put("a", "a0", "b0", weight="1@0")
    scripts.put("b", "x9", weight="1@9")
    assert scripts.take("t1", "t2", "t3", "t4", "t5", "t6") == ["a0", "x9", "b0", "a5", "b5", "a9"]


@pytest.mark.parametrize("text", ["1@", "1@10", "1@x", "@1", "1@-1", "1@1 "])
def test_what_is_no_priority_is_refused(scripts, text):
    assert scripts.put("a", "a1", weight=text)[0] == "weight"
