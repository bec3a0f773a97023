"""Where an item stands is how many are really served before it."""

import random

import pytest

from tests.queues import items
from vtrr_queue.engine import Engine
from vtrr_queue.forecast import FEWEST_RUNS, WEIGHED, WEIGHED_BYTES, Forecast
from vtrr_queue.model import FIRST_CHARGE_MS, NewItem
from vtrr_queue.policy import Rate
from vtrr_queue.stats import Tally


@pytest.fixture
def engine(redis_client):
    return Engine(redis_client, "q")


@pytest.mark.parametrize("seed", range(12))
def test_as_many_are_served_before_it_as_was_said(engine, seed):
    """Whatever the backlogs, as long as weights are 1, nobody joins and sums of turns are exact."""
    rng = random.Random(seed)
    ids = []
    for name in rng.sample("abcdefgh", rng.randint(1, 8)):
        if rng.random() < 0.5:
            engine.set_policy(name, share=rng.choice([0.5, 2, 4, 8]))
        mine = [f"{name}{n}" for n in range(rng.randint(1, 15))]
        engine.enqueue(name, items(*mine))
        ids += mine
        if rng.random() < 0.5:
            engine.lease(count=2)
    forecast = Forecast(engine)
    expected = {}
    for item_id in ids:
        position = forecast.position(item_id)
        if position.state == "waiting":
            expected[item_id] = position.ahead
    served = [lease.item_id for lease in engine.lease(count=len(ids)).items]
    assert {item_id: served.index(item_id) for item_id in expected} == expected


@pytest.mark.parametrize("seed", range(6))
def test_the_weights_of_its_own_partition_count(engine, seed):
    """As many are served before it as was said, where others have weights of 1."""
    rng = random.Random(seed)
    for name in "bc":
        engine.enqueue(name, items(*(f"{name}{n}" for n in range(60))))
    heavy = [f"h{n}" for n in range(12)]
    for item_id in heavy:
        engine.enqueue("h", items(item_id, weight=rng.choice([1, 2, 5, 9])))
    engine.set_policy("h", share=rng.choice([1, 2]))
    forecast = Forecast(engine)
    expected = {item_id: forecast.position(item_id).ahead for item_id in heavy}
    served = [lease.item_id for lease in engine.lease(count=132).items]
    assert {item_id: served.index(item_id) for item_id in heavy} == expected


def test_expected_run_times_count(redis_client):
    """With `charge="runtime"` a weight is seconds, and an item without has its partition's mean."""
    engine = Engine(redis_client, "q", limits={"charge": "runtime"})
    engine.enqueue("b", items(*(f"b{n}" for n in range(200))))
    engine.enqueue("h", items(*(f"h{n}" for n in range(4)), weight=5))
    assert Forecast(engine).position("h3").ahead == 3 + 15 * 1000 // FIRST_CHARGE_MS + 1


@pytest.mark.parametrize("body", [b"x", b"x" * 100_000])
def test_few_weights_are_read(engine, redis_client, body):
    """Of a long or a large backlog the first ones; those after them weigh as these on average."""
    count = 60 if len(body) > 1 else 3 * WEIGHED
    engine.enqueue("h", [NewItem(f"h{n}", body, 5.0, 0) for n in range(count)])
    engine.enqueue("b", items(*(f"b{n}" for n in range(5 * count + 5))))
    forecast = Forecast(engine)
    before = redis_client.info("stats")["total_net_output_bytes"]
    ahead = forecast.position(f"h{count - 1}").ahead
    assert redis_client.info("stats")["total_net_output_bytes"] - before < 2 * WEIGHED_BYTES
    assert ahead == (count - 1) + 5 * (count - 1) + 1


def test_an_item_that_does_not_wait_has_no_place(engine):
    """It runs, is delayed, is dead, or was never there."""
    engine.enqueue("a", items("a1", "a2"))
    engine.enqueue("a", items("later", delay_ms=60_000))
    running, dead = engine.lease(count=2).items
    engine.bury(dead.item_id, dead.token, "why")
    forecast = Forecast(engine)
    found = {name: forecast.position(name) for name in ("a1", "later", "a2", "never")}
    assert (found["a1"].state, found["a1"].wait_seconds) == ("running", 0.0)
    assert (found["later"].state, found["later"].ahead) == ("delayed", None)
    assert (found["a2"], found["never"]) == (None, None)
    assert running.item_id == "a1"


@pytest.fixture
def worker(engine, redis_client):
    """Somebody who listens on the queue's channel, as workers do."""
    with redis_client.pubsub() as listener:
        listener.subscribe(engine.keys.wake_channel)
        assert listener.get_message(timeout=10)["type"] == "subscribe"
        yield


@pytest.mark.usefixtures("worker")
def test_the_wait_follows_from_how_long_runs_took(engine):
    """Two run at a time, ten seconds each on the average: eight ahead take forty seconds."""
    engine.enqueue("a", items(*(f"a{n}" for n in range(20))))
    engine.lease(count=2)
    forecast = Forecast(engine)
    assert forecast.position("a10").wait_seconds is None
    tally = Tally()
    for seconds in (5, 15) * (FEWEST_RUNS // 2):
        tally.ended("acked", seconds)
    engine.count(tally)
    assert forecast.position("a10").wait_seconds == pytest.approx(40)
    engine.set_policy("a", cap=1)
    assert forecast.position("a10").wait_seconds == pytest.approx(80)
    engine.set_policy("a", paused=True)
    assert forecast.position("a10").wait_seconds is None


@pytest.mark.usefixtures("worker")
def test_a_few_runs_tell_nothing(engine):
    """The first ones may be of another kind than what comes."""
    engine.enqueue("a", items(*(f"a{n}" for n in range(20))))
    engine.lease(count=2)
    forecast = Forecast(engine)
    for count, is_told in ((FEWEST_RUNS - 1, False), (1, True)):
        tally = Tally()
        for _ in range(count):
            tally.ended("acked", 1.0)
        engine.count(tally)
        assert (forecast.position("a10").wait_seconds is not None) == is_told


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("rate", "weight", "seconds"),
    [
        (Rate("2/s"), 1, 15),
        (Rate("2/s", burst=5), 1, 13),
        (Rate("2/s", by="weight"), 3, 45),
        (Rate("30/m"), 1, 60),
    ],
)
def test_a_rate_tells_the_wait(engine, rate, weight, seconds):
    """The first is let through at once, so the thirtieth of those that wait comes after thirty."""
    engine.set_policy("a", rate=rate)
    engine.enqueue("a", items(*(f"a{n}" for n in range(40)), weight=weight))
    for lease in engine.lease(count=10).items:
        engine.ack(lease.item_id, lease.token)
    gone = rate.burst
    forecast = Forecast(engine)
    told = forecast.position(f"a{gone + 29}").wait_seconds
    assert told == pytest.approx(seconds + (gone - 1) / 2, abs=1)


@pytest.mark.usefixtures("worker")
def test_the_rate_of_the_queue_tells_the_wait(redis_client):
    """It holds for all partitions together, whatever runs meanwhile."""
    engine = Engine(redis_client, "q", limits={"total_rate": "2/s"})
    engine.enqueue("a", items(*(f"a{n}" for n in range(40))))
    engine.enqueue("b", items(*(f"b{n}" for n in range(40))))
    (lease,) = engine.lease(count=10).items
    forecast = Forecast(engine)
    ahead = forecast.position("a10").ahead
    assert ahead == 19
    engine.ack(lease.item_id, lease.token)
    assert forecast.position("a10").wait_seconds == pytest.approx((ahead + 1) / 2, abs=1)


def test_a_rate_tells_nothing_without_a_worker(engine):
    engine.set_policy("a", rate="2/s")
    engine.enqueue("a", items("a1", "a2", "a3"))
    (lease,) = engine.lease(count=2).items
    engine.ack(lease.item_id, lease.token)
    assert Forecast(engine).position("a3").wait_seconds is None
