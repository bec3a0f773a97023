"""Where an item stands is how many are really served before it."""

import random

import pytest

from tests.queues import items
from vtrr_queue.engine import Engine
from vtrr_queue.forecast import Forecast
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
    for seconds in (5, 15):
        tally.ended("acked", seconds)
    engine.count(tally)
    assert forecast.position("a10").wait_seconds == pytest.approx(40)
    engine.set_policy("a", cap=1)
    assert forecast.position("a10").wait_seconds == pytest.approx(80)
    engine.set_policy("a", paused=True)
    assert forecast.position("a10").wait_seconds is None
