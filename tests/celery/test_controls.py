"""What people decide about partitions acts at the next lease, in every process."""

import math

import pytest
from celery import Celery

from vtrr_queue import ArgumentError, ArgumentTypeError, BacklogFull, Policy, Rate, VTRRQueue


@pytest.fixture
def make(server, redis_client):
    """Make queues of one name, as several processes do; each with its task."""
    made = []

    def make(**options):
        app = Celery("ruled", broker="memory://")
        vtrr = VTRRQueue(redis_client, app, name="q", dispatch="direct", **options)
        vtrr.act = vtrr.task(name_it)
        made.append(vtrr)
        return vtrr

    yield make
    for vtrr in made:
        assert vtrr.inspector.audit() == []
        vtrr.engine.client.close()
        vtrr.app.close()


def name_it(_task, *_args):
    """Do nothing."""


def put(vtrr, partition, count, **entry):
    """Enqueue so many items; their ids."""
    return vtrr.act.queue(partition, [dict(entry)] * count)


def take(vtrr, count):
    """Lease up to so many items; ids and tokens by id."""
    found = {}
    for _ in range(count):
        item = vtrr._dequeue()
        if item:
            found[item[3]] = item[4]
    return found


def partitions(vtrr, count):
    """Lease up to so many items; how many came of each partition."""
    leased = [vtrr.engine.lease().items for _ in range(count)]
    names = [lease.partition for leases in leased for lease in leases]
    return {name: names.count(name) for name in sorted(set(names))}


def test_a_share_gives_more_turns(make):
    """Another process sees it at its next lease."""
    here, there = make(), make()
    put(here, "a", 40)
    put(here, "b", 40)
    there.set_partition("a", share=3)
    assert partitions(here, 40) == {"a": 30, "b": 10}


def test_a_cap_bounds_what_runs(make):
    """A lower one takes nothing away from what runs; without one there is no bound."""
    vtrr = make()
    ids = put(vtrr, "a", 9)
    vtrr.set_partition("a", cap=2)
    running = take(vtrr, 9)
    assert list(running) == ids[:2]
    vtrr.ack(ids[0], running[ids[0]])
    assert list(take(vtrr, 9)) == [ids[2]]
    vtrr.set_partition("a", cap=None)
    assert list(take(vtrr, 9)) == ids[3:]


def test_the_queues_defaults_hold_where_a_partition_has_none(make):
    """`math.inf` takes a default away."""
    vtrr = make(default_cap=1, default_share=2, max_backlog=5, default_rate="1/h")
    vtrr.set_partition("free", cap=math.inf, share=4, max_backlog=math.inf, rate=math.inf)
    put(vtrr, "a", 5)
    put(vtrr, "free", 6)
    assert partitions(vtrr, 9) == {"a": 1, "free": 6}
    assert vtrr.get_partition("a") == Policy()
    assert vtrr.get_partition("free") == Policy(4, math.inf, math.inf, math.inf)


def test_defaults_of_a_later_deployment_replace_those_before(make):
    """Also when it has none, as soon as one of its workers starts."""
    old, new = make(default_cap=1), make()
    put(old, "a", 3)
    assert partitions(new, 3) == {"a": 1}
    new.engine.declare(anyway=True)
    assert partitions(new, 3) == {"a": 2}


def test_a_ceiling_bounds_the_whole_queue(make):
    vtrr = make(max_in_flight=2)
    put(vtrr, "a", 3)
    put(vtrr, "b", 3)
    assert partitions(vtrr, 6) == {"a": 1, "b": 1}


def test_a_full_backlog_refuses_the_whole_call(make):
    """Whatever it holds of room; more than one script's worth too."""
    vtrr = make(max_backlog=1500)
    put(vtrr, "a", 1400)
    with pytest.raises(
        BacklogFull, match="'a' has 1400 items waiting, max_backlog is 1500"
    ) as caught:
        put(vtrr, "a", 1200)
    assert (caught.value.waiting, caught.value.max_backlog, caught.value.items) == (
        1400,
        1500,
        1200,
    )
    assert vtrr.inspector.depth().waiting == 1400
    put(vtrr, "b", 1500)
    put(vtrr, "a", 100)
    with pytest.raises(BacklogFull):
        vtrr.act.apply_async(partition_key="a")


def test_pause_and_resume(make):
    vtrr = make()
    put(vtrr, "a", 2)
    put(vtrr, "b", 2)
    vtrr.pause("a")
    assert partitions(vtrr, 1) == {"b": 1}
    vtrr.pause()
    assert partitions(vtrr, 4) == {}
    vtrr.resume()
    assert partitions(vtrr, 4) == {"b": 1}
    assert vtrr.get_partition("a").paused
    vtrr.resume("a")
    assert partitions(vtrr, 4) == {"a": 2}


def test_a_hold_is_told_with_its_end(make):
    vtrr = make()
    put(vtrr, "a", 1)
    vtrr.hold("a", 3600)
    leased = vtrr.engine.lease()
    assert not leased.items
    until = vtrr.get_partition("a").held_until_ms
    assert leased.wake.next_wake_ms == until
    assert 3_590_000 < until - leased.wake.server_now_ms <= 3_600_000
    vtrr.hold("a", 0)
    assert partitions(vtrr, 1) == {"a": 1}


def test_a_cleared_partition_is_like_any_other(make):
    vtrr = make()
    vtrr.set_partition("a", share=2, cap=1, rate=Rate("90/m", burst=3), max_backlog=7, paused=True)
    assert vtrr.get_partition("a") == Policy(2.0, 1, Rate(1.5, burst=3), 7, paused=True)
    vtrr.clear_partition("a")
    assert vtrr.get_partition("a") == Policy()
    put(vtrr, "a", 9)
    assert partitions(vtrr, 9) == {"a": 9}


def test_priorities_are_strict_inside_a_partition(make):
    """0 first, 9 last, 5 by default; a priority gives no turn before another partition."""
    vtrr = make()
    late = put(vtrr, "a", 1, priority=9)
    usual = put(vtrr, "a", 1)
    first = put(vtrr, "a", 1, priority=0)
    handle = vtrr.act.apply_async(partition_key="a", priority=1)
    assert list(take(vtrr, 9)) == [*first, handle.id, *usual, *late]


def test_cancelled_items_never_start(make):
    """By id; what runs is told, and does not run again."""
    vtrr = make()
    ids = put(vtrr, "a", 4)
    later = vtrr.act.apply_async(partition_key="a", countdown=60).id
    running = take(vtrr, 1)
    cancelled = vtrr.cancel([ids[0], ids[2], later, "nobody"])
    assert (cancelled.waiting, cancelled.running) == ((ids[2], later), (ids[0],))
    assert vtrr.engine.is_cancelled(ids[0])
    assert vtrr.engine.release(ids[0], running[ids[0]]).held
    assert list(take(vtrr, 9)) == [ids[1], ids[3]]
    assert vtrr.cancel(ids[0]).waiting == ()


def test_a_purge_takes_all_that_waits(make):
    """At every priority and with a countdown; what runs goes on."""
    vtrr = make()
    put(vtrr, "a", 1200)
    put(vtrr, "a", 3, priority=2)
    vtrr.act.apply_async(partition_key="a", countdown=60)
    kept = vtrr.act.apply_async(partition_key="b", countdown=60).id
    other = put(vtrr, "b", 2)
    assert vtrr.purge("a") == 1204
    assert list(take(vtrr, 9)) == other
    assert vtrr.inspector.depth().delayed == 1
    vtrr.cancel([kept, *other])
    assert vtrr.purge("nobody") == 0


def test_everything_of_a_partition_is_cancelled(make):
    vtrr = make()
    ids = put(vtrr, "a", 3)
    put(vtrr, "b", 1)
    take(vtrr, 1)
    cancelled = vtrr.cancel(partition="a")
    assert cancelled.running == (ids[0],)
    assert partitions(vtrr, 9) == {"b": 1}


def test_a_policy_of_the_apps_own_is_asked_at_each_enqueue(make):
    """It is stored when it has changed, and what it no longer says is the default again."""
    plans, asked = {"a": {"cap": 2, "share": 3}}, []

    def policy(partition):
        asked.append(partition)
        return plans.get(partition)

    vtrr = make(policy=policy)
    put(vtrr, "a", 5)
    put(vtrr, "b", 1)
    assert asked == ["a", "b"]
    assert vtrr.get_partition("a") == Policy(3.0, 2)
    assert vtrr.get_partition("b") == Policy()
    plans["a"] = {"cap": 1}
    put(vtrr, "a", 1)
    assert vtrr.get_partition("a") == Policy(cap=1)


def test_a_plan_that_is_gone_is_taken_back_by_a_new_process(make):
    """One that never saw it asks, too."""
    put(make(policy=lambda _: {"cap": 1}), "a", 1)
    vtrr = make(policy=lambda _: None)
    put(vtrr, "a", 2)
    assert vtrr.get_partition("a") == Policy()


@pytest.mark.parametrize("plan", [["cap"], "cap", {"paused": True}, {"max_in_flight": 1}])
def test_a_plan_has_settings_of_a_plan_only(make, plan):
    vtrr = make(policy=lambda _: plan)
    with pytest.raises((ArgumentError, ArgumentTypeError), match="policy must be"):
        put(vtrr, "a", 1)


def test_a_repeated_call_needs_no_room(make):
    """Its ids are known; also beyond the first script, and those that come twice."""
    vtrr = make(max_backlog=1200)
    entries = [{"id": f"i{n % 1200}"} for n in range(1300)]
    vtrr.act.queue("a", entries)
    vtrr.act.queue("a", entries)
    assert vtrr.inspector.depth().waiting == 1200
    with pytest.raises(BacklogFull):
        put(vtrr, "a", 1)


def test_a_cancelled_run_that_fails_is_no_dead_letter(make):
    vtrr = make(on_failure="dead")
    (item_id,) = put(vtrr, "a", 1)
    (lease,) = vtrr.engine.lease().items
    vtrr.cancel(item_id)
    assert vtrr.bury(lease, "it failed")
    assert vtrr.inspector.depth().dead == 0


def test_a_wrong_partition_cancels_nothing(make):
    vtrr = make()
    (item_id,) = put(vtrr, "a", 1)
    with pytest.raises(ArgumentError, match="partition must be"):
        vtrr.cancel(item_id, partition="")
    assert list(take(vtrr, 1)) == [item_id]


def test_a_short_hold_is_a_hold(make):
    """It is never rounded to none."""
    vtrr = make()
    vtrr.hold("a", 1e-6)
    assert vtrr.get_partition("a").held_until_ms


def test_a_wrong_policy_of_the_apps_own_enqueues_nothing(make):
    vtrr = make(policy=lambda _: {"cap": 0})
    with pytest.raises(ArgumentError, match="cap must be from 1 to 1000000000, not 0"):
        put(vtrr, "a", 1)
    assert vtrr.inspector.depth().waiting == 0


BAD_PARTITIONS = [
    ({"share": 0}, "share must be from 0.01 to 100, not 0"),
    ({"share": math.nan}, "share must be from 0.01 to 100, not nan"),
    ({"share": "3"}, r"share must be a number, not '3' \(str\)"),
    ({"cap": 0}, "cap must be from 1 to 1000000000, not 0"),
    ({"cap": 1.5}, r"cap must be an integer, not 1.5 \(float\)"),
    ({"cap": True}, r"cap must be an integer, not True \(bool\)"),
    ({"rate": "fast"}, "rate must be a text such as '100/m', not 'fast'"),
    ({"rate": "0/m"}, "rate must be from 1e-06 to 1e"),
    ({"rate": []}, "rate must be a text such as '100/m', or a number, not"),
    ({"max_backlog": -1}, "max_backlog must be from 1"),
    ({"paused": 1}, r"paused must be True or False, not 1 \(int\)"),
    ({"name": ""}, "name must be a non-empty string, not ''"),
]


@pytest.mark.parametrize(("settings", "message"), BAD_PARTITIONS)
def test_a_wrong_setting_is_named(make, settings, message):
    """Nothing is stored."""
    vtrr = make()
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        vtrr.set_partition(**{"name": "a", **settings})
    assert vtrr.get_partition("a") == Policy()


@pytest.mark.parametrize("seconds", [-1, math.inf, math.nan, "1", None, True])
def test_a_wrong_hold_is_named(make, seconds):
    """None would be no hold at all, and is refused as well."""
    with pytest.raises((ArgumentError, ArgumentTypeError), match="hold must be"):
        make().hold("a", seconds)


BAD_QUEUES = [
    ({"charge": []}, r"charge must be 'weight' or 'runtime', not \[\]"),
    ({"charge": "time"}, "charge must be 'weight' or 'runtime', not 'time'"),
    ({"default_share": 1000}, "default_share must be from"),
    ({"default_cap": "2"}, "default_cap must be an integer"),
    ({"default_rate": "1/y"}, "default_rate must be a text"),
    ({"max_rate": 0}, "max_rate must be from"),
    ({"max_in_flight": 0}, "max_in_flight must be from"),
    ({"max_backlog": 0.5}, "max_backlog must be an integer"),
    ({"policy": {"a": 1}}, "policy must be a function of the partition"),
]


@pytest.mark.parametrize(("options", "message"), BAD_QUEUES)
def test_a_wrong_default_is_named(make, options, message):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        make(**options)


@pytest.mark.parametrize("priority", [-1, 10, 1.0, "1", True])
def test_a_wrong_priority_is_named(make, priority):
    """In both ways to enqueue; nothing is stored."""
    vtrr = make()
    with pytest.raises((ArgumentError, ArgumentTypeError), match=r"tasks\[0\]\['priority'\]"):
        put(vtrr, "a", 1, priority=priority)
    with pytest.raises((ArgumentError, ArgumentTypeError), match="priority must be"):
        vtrr.act.apply_async(partition_key="a", priority=priority)
    assert vtrr.inspector.depth().waiting == 0


def test_a_wrong_burst_or_unit_is_named():
    """Beside the rate itself."""
    with pytest.raises(ArgumentError, match="burst must be from 1"):
        Rate(1, burst=0)
    with pytest.raises(ArgumentError, match="by must be 'items' or 'weight'"):
        Rate(1, by="time")


@pytest.mark.parametrize("limit", [0, "5/x", "-1/s", "1/s/s", True, None, 1e9, 10**400])
def test_a_wrong_rate_is_named(limit):
    with pytest.raises((ArgumentError, ArgumentTypeError), match="rate must be"):
        Rate(limit)


@pytest.mark.parametrize(
    ("limit", "per_second"), [("120/m", 2), ("5", 5), ("36/h", 0.01), (3, 3), ("1.5/s", 1.5)]
)
def test_rates_are_written_as_celery_does(limit, per_second):
    assert Rate(limit).limit == pytest.approx(per_second)
