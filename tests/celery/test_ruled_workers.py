"""Shares, caps, rates and holds with real workers, in both dispatch modes."""

import json
import os
import signal
import time
from collections import Counter
from contextlib import ExitStack

import pytest

from tests.stage import Stage
from tests.waiting import eventually
from vtrr_queue import Rate


@pytest.fixture
def make_stage(tmp_path, dispatch):
    """Open a stage whose queue has these options."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(
            Stage("ruled", tmp_path, dispatch=dispatch, QUEUE_OPTIONS=options)
        )


def start(stage, pool="threads", concurrency=2):
    return stage.start_worker(queues=["ruled"], pool=pool, concurrency=concurrency)


def put(stage, partition, count, seconds=0.0):
    return stage.app.act.queue(partition, [{"args": [seconds]}] * count)


@pytest.mark.alone
def test_a_held_partition_wakes_by_itself(make_stage):
    """Within half a second of the moment, with the worker idle until then."""
    stage = make_stage()
    start(stage)
    stage.app.vtrr.hold("a", 2)
    until = stage.app.vtrr.get_partition("a").held_until_ms / 1000
    put(stage, "a", 1)
    (run,) = stage.wait_runs(1)
    assert 0 <= run["at"] - until < 0.5
    stage.wait_rest("ruled")


def measure_rate(stage, seconds):
    """Serve 1,000 items of a partition at 10 a second, burst 5; starts a second, calls an item."""
    start(stage)
    stage.wait_rest("ruled")
    stage.app.vtrr.set_partition("a", rate=Rate("10/s", burst=5))
    before = stage.script_calls()
    put(stage, "a", 1000)
    first = stage.wait_runs(1)[0]["at"]
    eventually(
        lambda: stage.traces.runs()[-1]["at"] - first >= seconds,
        seconds + 15,
        f"{seconds} seconds of it",
    )
    calls = stage.script_calls() - before
    runs = [run["at"] - first for run in stage.traces.runs() if run["at"] - first < seconds]
    eventually(lambda: stage.inflight("ruled") == 0, 1, "a moment in which no worker is held")
    return (len(runs) - 4) / seconds, calls / len(runs)


@pytest.mark.alone
def test_a_rate_is_kept_without_polling(make_stage):
    """10 a second with a burst of 5: 10 % off at most, and few calls for each item."""
    rate, calls = measure_rate(make_stage(), 6)
    assert 9 <= rate <= 11
    assert calls < 8


@pytest.mark.chaos
def test_a_rate_is_kept_for_a_while(make_stage):
    """Over 20 seconds within 5 %."""
    rate, calls = measure_rate(make_stage(), 20)
    print(f"10/s, burst 5, idle workers, 20 s: {rate:.2f}/s, {calls:.1f} calls an item")
    assert 9.5 <= rate <= 10.5
    assert calls < 8


@pytest.mark.parametrize("option", ["default_cap", "max_in_flight"])
def test_short_items_under_a_cap_follow_each_other(make_stage, option):
    """The slot that one leaves is filled in the same round trip, not at the next look."""
    stage = make_stage(**{option: 1})
    start(stage)
    stage.wait_rest("ruled")
    put(stage, "a", 30)
    runs = stage.wait_runs(30)
    assert runs[-1]["at"] - runs[0]["at"] < 5


def test_a_rate_is_kept_beside_long_items(make_stage):
    """Free slots are filled when the time has come, though others are taken."""
    stage = make_stage()
    start(stage, concurrency=6)
    stage.app.vtrr.set_partition("a", rate="2/s")
    put(stage, "a", 5, 5)
    runs = stage.wait_runs(5)
    assert runs[4]["at"] - runs[0]["at"] < 4


@pytest.mark.parametrize("dispatch", ["direct"], indirect=True)
def test_limits_come_back_after_the_server_has_lost_everything(make_stage):
    """As soon as a worker looks, though no process has started since."""
    stage = make_stage(default_cap=1)
    start(stage)
    put(stage, "a", 1)
    stage.wait_rest("ruled")
    stage.redis.flushdb()
    put(stage, "a", 4, 0.3)  # this process has declared its limits before
    limits = stage.app.vtrr.engine.keys["policy"]
    eventually(lambda: stage.redis.hexists(limits, ""), 15, "the limits in force")
    stage.wait_rest("ruled", 30)


def test_a_cap_holds_whoever_is_killed(make_stage):
    """And when all is over the full cap is to be had again."""
    stage = make_stage(default_cap=2, max_in_flight=5, lease_seconds=4, heartbeat=True)
    workers = [start(stage, "prefork", 3) for _ in range(2)]
    for partition in "abcd":
        put(stage, partition, 12, 0.3)
    seen, killed = Counter(), 0
    deadline = time.monotonic() + 60
    while stage.redis.exists("vtrr:ruled:task"):
        assert time.monotonic() < deadline
        held, total = stage.redis.pipeline().hgetall("vtrr:ruled:running").zcard(
            "vtrr:ruled:inflight").execute()  # fmt: skip
        seen["most"] = max(seen["most"], *(int(count) for count in held.values()), 0)
        seen["total"] = max(seen["total"], total)
        if killed < 6 and stage.traces.count() > 6 * (killed + 1):
            killed += 1
            if killed == 3:
                workers[0].kill_group()
                workers[0] = start(stage, "prefork", 3)
            else:
                os.kill(workers[1].children()[0], signal.SIGKILL)
    assert killed == 6
    assert seen == {"most": 2, "total": 5}
    put(stage, "z", 3, 1)
    eventually(lambda: stage.redis.hget("vtrr:ruled:running", "z") == "2", 10, "the full cap")
    stage.wait_rest("ruled")


def test_a_running_item_is_told_that_it_was_cancelled(make_stage):
    """A function that asks can end early; the item is gone then."""
    stage = make_stage()
    start(stage)
    (item_id,) = stage.app.act.queue("a", [{"args": ["until cancelled"]}])
    stage.wait_runs(1)
    assert stage.app.vtrr.cancel(item_id).running == (item_id,)
    stage.wait_rest("ruled")
    assert stage.traces.ends() == [item_id]


def test_a_cancelled_run_that_is_killed_does_not_come_back(make_stage):
    stage = make_stage()
    worker = start(stage, "prefork", 1)
    (item_id,) = put(stage, "a", 1, 60)
    (run,) = stage.wait_runs(1)
    stage.app.vtrr.cancel(item_id)
    os.kill(run["pid"], signal.SIGKILL)
    stage.wait_rest("ruled")
    put(stage, "a", 1)
    assert [run["id"] for run in stage.wait_runs(2)].count(item_id) == 1
    assert worker.is_running()


def measure_worker_time(stage, seconds):
    """Two tenants of short and long items on four processes; worker seconds of each."""
    start(stage, "prefork", 4)
    put(stage, "short", round(seconds * 4 / 0.05), 0.05)
    put(stage, "long", round(seconds * 4 / 2), 2.0)
    begin = stage.wait_runs(1)[0]["at"]
    eventually(lambda: time.time() > begin + seconds, seconds + 10, "the end of the run")
    worked = Counter()
    for text in stage.traces.client.lrange("worked", 0, -1):
        partition, took = json.loads(text)
        worked[partition] += took
    return worked


@pytest.mark.alone
@pytest.mark.parametrize("dispatch", ["direct"])
def test_worker_time_is_shared(make_stage):
    """Items of 0.05 s and 2 s: both tenants get about half of the workers."""
    stage = make_stage(charge="runtime")
    worked = measure_worker_time(stage, 9)
    assert 0.35 <= worked["long"] / worked.total() <= 0.65, worked


@pytest.mark.chaos
def test_worker_time_is_shared_for_a_minute(make_stage):
    """The same within 40 to 60 %."""
    stage = make_stage(charge="runtime")
    worked = measure_worker_time(stage, 60)
    print(f"worker seconds in 60 s on 4 processes: {dict(worked)}")
    assert 0.4 <= worked["long"] / worked.total() <= 0.6
