"""What policies cost does not depend on how much waits: the commands behind a call are counted."""

from collections import Counter

import pytest

from tests.queues import audited_engine, items
from vtrr_queue import Rate

UNBOUNDED = {"keys", "scan", "hkeys", "hgetall", "hvals", "smembers", "lrem", "sort"}
"""Commands whose cost grows with what is stored."""


@pytest.fixture
def engine(redis_client):
    with audited_engine(redis_client, socket_timeout=60) as engine:
        yield engine


@pytest.fixture
def commands(redis_client):
    """Count the commands that a call runs on the server, scripts included."""

    def commands(call):
        redis_client.config_resetstat()
        call()
        stats = redis_client.info("commandstats")
        found = {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}
        return Counter({
            name: calls for name, calls in found.items()
            if not name.startswith(("config", "eval", "script"))
        })  # fmt: skip

    return commands


def fill(engine, partition, count):
    for at in range(0, count, 10_000):
        ids = (f"{partition}-{n}" for n in range(at, min(at + 10_000, count)))
        engine.enqueue(partition, items(*ids))


CHANGES = [
    {"share": 3}, {"cap": 5}, {"rate": Rate("5/s")}, {"paused": True}, {"paused": False},
    {"hold": 60}, {"hold": 0},
]  # fmt: skip


def test_a_setting_costs_the_same_whatever_waits(engine, commands):
    """With 10 and with 100,000 items in the partition, and no command that walks over them."""
    engine.set_policy("other", cap=1)
    engine.lease()
    costs = []
    for count in (10, 100_000):
        name = f"p{count}"
        fill(engine, name, count)
        costs.append([
            commands(lambda change=change, name=name: engine.set_policy(name, **change))
            for change in CHANGES
        ])  # fmt: skip
    assert costs[0] == costs[1]
    assert all(not UNBOUNDED & cost.keys() for cost in costs[1])


def test_blocked_partitions_cost_a_lease_nothing(engine, commands):
    """1,000 of them, capped or paused, with 100,000 items: the same commands as without."""
    engine.set_policy("", cap=1)
    fill(engine, "a", 100)
    engine.set_policy("a", cap=100)
    costs = [commands(engine.lease)]
    for number in range(1000):
        if number % 2:
            engine.set_policy(f"b{number}", paused=True)
        fill(engine, f"b{number}", 100)
    while engine.lease(count=500).items:  # the others run one item each
        pass
    assert engine.client.read(("HLEN", engine.keys["running"])) == [501]
    fill(engine, "a2", 2)
    engine.set_policy("a2", cap=9)
    costs.append(commands(engine.lease))
    assert not UNBOUNDED & costs[1].keys()
    assert costs[1] == costs[0]


def test_a_purge_goes_in_small_steps(engine, commands):
    """500 items a call, so that others are served in between."""
    fill(engine, "a", 20_000)
    before = engine.client.calls
    assert commands(lambda: engine.purge("a"))["hdel"] == 20_000
    assert engine.client.calls - before == 40
