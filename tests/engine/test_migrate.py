"""A queue of release 0.2 keeps every item, order, payload and count of timeouts."""

import json
import time

import pytest

from tests.old_queue import (
    COLONS,
    FAR,
    LEASED,
    NAME,
    ORDER,
    TIMEOUTS,
    WAITING,
    call,
    convert,
    drain,
    enqueue_old,
    fill,
    lease_old,
    state,
    stop_after,
)
from tests.stored import stored
from vtrr_queue.errors import SchemaMismatch
from vtrr_queue.inspector import Inspector
from vtrr_queue.migrate.survey import MigrationRefused
from vtrr_queue.model import NewItem
from vtrr_queue.payload import decode


@pytest.fixture
def engine(old_engine):
    return old_engine


# --- what a conversion keeps -----------------------------------------------------------


def test_a_database_of_0_2_is_refused_until_it_is_converted(old, engine):
    for use in (engine.lease, engine.reclaim, lambda: engine.enqueue("p", [NewItem("x", b"y")])):
        with pytest.raises(SchemaMismatch, match=r"vtrr_queue\.migrate"):
            use()

    convert(old)

    assert len(engine.lease(count=3).items) == 3


@pytest.mark.parametrize("batch", [1, 2, 500])
def test_order_payload_weight_and_timeouts_are_kept(old, engine, batch):
    total, placed = convert(old, batch)
    assert Inspector(engine).audit(largest_charge=2.5) == []
    leases = drain(engine)

    assert (total.waiting, total.leased, total.dead, total.repeated) == (7, 2, 0, 0)
    assert (placed.waiting, placed.leased, placed.dead) == (7, 2, 0)
    # t-0 had expired: it was put back, counted, behind its partition
    assert {
        partition: [lease.item_id for lease in leases if lease.partition == partition]
        for partition in ORDER
    } == {**ORDER, COLONS: [*ORDER[COLONS], "t-0"]}
    weights = {item[0]: float(item[3]) for item in (*WAITING, *LEASED)}
    for lease in leases:
        assert lease.weight == weights[lease.item_id]
        assert lease.timeouts == TIMEOUTS[lease.item_id] + (lease.item_id == "t-0")
        payload = decode(lease.body)
        assert payload.task_name == "app.run"
        assert payload.call() == ([lease.item_id, [], 10**20], {"zoë": {}})


def test_a_lease_is_kept_under_its_token_until_it_ends(old, engine):
    convert(old)
    assert "a0" not in {lease.item_id for lease in drain(engine)}

    assert not engine.ack("a0", "33" * 16).held
    assert engine.ack("a0", "11" * 16).held
    assert stored(old, NAME) == {}


def test_an_expired_lease_comes_back_once_with_its_timeouts(old, engine):
    convert(old)

    assert engine.reclaim().count == 1
    assert not engine.ack("t-0", "22" * 16).held
    assert [lease.timeouts for lease in drain(engine) if lease.item_id == "t-0"] == [3]


def test_partitions_enter_at_the_clock(old):
    convert(old)

    found = stored(old, NAME)
    assert found["queue"] == {partition.encode(): 0 for partition in ORDER}
    assert found["schema"] == b"5"
    assert not {"current_virtual_time", "partition_virtual_time", "meta", "timeouts"} & found.keys()
    assert not [key for key in found if key.startswith(("v2.", "v3."))]
    assert "running" not in found  # it is kept while there are policies only


def test_other_queues_are_left_alone(old):
    old.rpush("vtrr:files:v2:backlog:a", "x")  # of a queue named "files:v2"
    old.set("vtrr:filesystem:schema", "5")

    convert(old)

    assert old.lrange("vtrr:files:v2:backlog:a", 0, -1) == [b"x"]
    assert old.get("vtrr:filesystem:schema") == b"5"


def test_one_id_waiting_and_leased_is_one_item(old):
    enqueue_old(old, "a0", 9, "acme")

    total, placed = convert(old)

    assert (total.waiting, total.leased, total.repeated) == (7, 2, 1)
    assert (placed.waiting, placed.leased) == (7, 2)


@pytest.mark.parametrize("batch", [1, 500])
def test_leases_with_one_token_between_them_or_none_are_kept_apart(old, engine, batch):
    old.hset("vtrr:files:lease", "t-0", "11" * 16)
    lease_old(old, "a9", FAR, "acme", "1", 0, "")

    assert convert(old, batch)[1].leased == 3
    assert len(stored(old, NAME)["lease"]) == 3
    assert engine.reclaim().count == 1


# --- what cannot run is kept -----------------------------------------------------------

UNREADABLE = {
    "no-json": ("{", "1:acme"),
    "no-object": ("[]", "1:acme"),
    "no-name": ('{"args":[],"kwargs":{}}', "1:acme"),
    "no-args": ('{"task_name":"t","kwargs":{}}', "1:acme"),
    "marker": (
        '{"task_name":"t","args":[{"__type__":"x","__value__":1}],"kwargs":{}}',
        "1:acme",
    ),
    "deep": ('{"task_name":"t","args":' + "[" * 100_000, "1:acme"),
    "nan": (json.dumps(call("nan")), "nan:acme"),
    "negative": (json.dumps(call("negative")), "-1:acme"),
    "no-partition": (json.dumps(call("no-partition")), "1:"),
}


def test_an_item_that_cannot_be_read_becomes_a_dead_letter(old, engine):
    for item_id, (text, meta) in UNREADABLE.items():
        enqueue_old(old, item_id, 0, "acme", text=text)
        old.hset("vtrr:files:meta", item_id, meta)
    old.zadd("vtrr:files:queue", {"no-payload": 0})
    old.hset("vtrr:files:task", "no-place", json.dumps(call("no-place")))

    total, placed = convert(old, batch=2)

    assert total.dead == placed.dead == len(UNREADABLE) + 2
    dead = stored(old, NAME)["dead"]
    assert dead.keys() == {item_id.encode() for item_id in (*UNREADABLE, "no-payload", "no-place")}
    for item_id, (text, _) in UNREADABLE.items():
        assert dead[item_id.encode()].endswith(text.encode())
    assert b"was neither waiting nor leased" in dead[b"no-place"]
    assert len(stored(old, NAME)["dead_index"]) == placed.dead
    assert len(drain(engine)) == 8


def test_a_weight_out_of_our_range_is_brought_into_it(redis_client, engine):
    enqueue_old(redis_client, "small", 0, "p", "0.0000001")
    enqueue_old(redis_client, "big", 1, "p", "1e12")

    convert(redis_client)

    assert [lease.weight for lease in drain(engine)] == [0.001, 1e9]


# --- 0.2 that still runs ---------------------------------------------------------------


def test_what_0_2_writes_meanwhile_is_converted_too(old, engine):
    written = iter([("late", 0, "acme"), ("a1", 9, "acme"), None])

    def write(_):
        late = next(written, None)
        if late:
            enqueue_old(old, *late)

    total, placed = convert(old, 500, write)

    assert (total.items, total.repeated, placed.waiting) == (11, 1, 8)
    leases = [lease.item_id for lease in drain(engine) if lease.partition == "acme"]
    assert leases == [*ORDER["acme"], "late"]


def test_a_producer_of_0_2_that_never_stops_is_reported_and_nothing_lost(old, engine):
    numbers = iter(range(1000))
    with pytest.raises(MigrationRefused, match="stop the producers"):
        convert(old, 500, lambda _: enqueue_old(old, f"late-{next(numbers)}", 0, "acme"))
    with pytest.raises(SchemaMismatch):
        engine.lease()

    convert(old)

    assert len(drain(engine)) == 8 + next(numbers)


# --- what it refuses -------------------------------------------------------------------


def refusal(client):
    before = stored(client, NAME)
    with pytest.raises(MigrationRefused) as refused:
        convert(client)
    assert stored(client, NAME) == before
    return refused.value.reason


def test_keys_of_another_layout_are_refused_and_unchanged(redis_client):
    redis_client.set("vtrr:files:schema", "7")
    assert "layout '7'" in refusal(redis_client)


def test_keys_of_another_program_are_refused_and_unchanged(redis_client):
    redis_client.rpush("vtrr:files:queue", "x")
    assert "'queue' is a list" in refusal(redis_client)
    redis_client.delete("vtrr:files:queue")
    redis_client.zadd("vtrr:files:queue", {"x": 1})
    assert "no 'meta'" in refusal(redis_client)


def test_a_converted_queue_into_which_0_2_wrote_is_refused(old):
    convert(old)
    old.hset("vtrr:files:meta", "x", "1:acme")
    assert "0.2 has written meta" in refusal(old)


@pytest.mark.parametrize("batches", [2, 5])
def test_a_conversion_whose_mark_was_deleted_says_how_to_go_on(old, batches):
    """A server that evicts keys may do that; after the last batch only built keys are left."""
    stop_after(old, batches)
    old.delete("vtrr:files:schema")
    assert "set 'vtrr:files:schema' to 'migrating'" in refusal(old)

    old.set("vtrr:files:schema", "migrating")
    assert convert(old)[1].waiting == 7


def test_a_mark_that_is_deleted_while_it_converts_is_noticed(old):
    with pytest.raises(MigrationRefused, match="its mark is gone"):
        convert(old, 500, lambda _: old.delete("vtrr:files:schema"))


@pytest.mark.parametrize("key", ["backlog:acme", "dead"])
def test_a_key_in_the_way_stops_it_before_anything_is_lost(old, reference, key):
    fill(old)
    old.set(f"vtrr:files:{key}", "x")
    with pytest.raises(MigrationRefused, match=key):
        convert(old)
    old.delete(f"vtrr:files:{key}")

    convert(old)

    assert state(old) == reference


def test_a_migrated_or_empty_queue_is_not_touched(old, engine):
    assert convert(old)[0].items == 9
    engine.lease()
    before = stored(old, NAME)
    assert convert(old)[0].items == 0
    assert stored(old, NAME) == before

    old.flushall()
    assert convert(old)[0].items == 0
    assert old.dbsize() == 0


def test_leftovers_without_items_leave_an_empty_queue(redis_client, engine):
    redis_client.set("vtrr:files:current_virtual_time", "12")
    redis_client.hset("vtrr:files:partition_virtual_time", "a", "13")
    with pytest.raises(SchemaMismatch):
        engine.lease()

    convert(redis_client)

    assert redis_client.dbsize() == 0
    assert engine.lease().items == ()


@pytest.mark.slow
def test_a_large_queue_is_converted_in_reasonable_time(redis_client, engine):
    """20,000 items, and no transaction blocks the server for long."""
    with redis_client.pipeline(transaction=False) as pipe:
        for number in range(20_000):
            enqueue_old(pipe, f"{number:05}", number, f"p{number % 100}")
            if number % 1000 == 999:
                pipe.execute()
    redis_client.slowlog_reset()
    redis_client.config_set("slowlog-log-slower-than", 50_000)
    began = time.monotonic()

    _, placed = convert(redis_client)

    assert placed.waiting == 20_000
    assert time.monotonic() - began < 30
    assert redis_client.slowlog_get() == []
    assert engine.lease(count=100).items[0].item_id == "00000"
