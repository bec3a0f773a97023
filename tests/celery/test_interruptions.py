"""Soft limits at random moments: no reply reaches the wrong call, and no connection leaks."""

import os
import random
import time
from signal import SIGUSR1

import pytest

from tests.stage import Stage
from tests.waiting import eventually
from vtrr_queue.payload import decode

ITEMS = 4
RUNS = [("trigger", 6.0), pytest.param("direct", 10.0, marks=pytest.mark.chaos)]


@pytest.mark.slow
@pytest.mark.parametrize(("dispatch", "seconds"), RUNS)
def test_soft_limits_at_random_moments(tmp_path, dispatch, seconds):
    """The function's own client is the one the queue was made with; retries are in play."""
    chance = random.Random(4)
    with Stage("interrupted", tmp_path, dispatch=dispatch) as stage:
        worker = stage.start_worker(queues=["interrupted"], concurrency=ITEMS)
        ids = stage.app.act.queue("p", [{"id": f"i{n}", "args": [seconds]} for n in range(ITEMS)])
        stage.wait_runs(ITEMS)
        connected = ours(stage)
        until, signals = time.monotonic() + seconds - 1, 0
        while time.monotonic() < until:
            os.kill(chance.choice(worker.children()), SIGUSR1)
            signals += 1
            stage.redis.blpop("nothing", chance.uniform(0.001, 0.03))
        stage.wait_rest("interrupted", 40)
        runs = stage.traces.runs()
        assert signals > 100
        # A run and two retries, none of them twice; a limit between two turns ends the item.
        log = worker.log()
        for item_id in ids:
            retries = [run["retries"] for run in runs if run["id"] == item_id]
            assert retries == list(range(len(retries)))
            ended = f"[{item_id}] raised unexpected: SoftTimeLimitExceeded" in log
            assert len(retries) == 3 or ended, item_id
        assert len({run["token"] for run in runs}) == len(runs)
        assert {run["timeouts"] for run in runs} == {0}
        assert set(stage.traces.client.lrange("wrong", 0, -1)) <= {"0"}
        assert stored(stage) == {item_id: f"{item_id}/child" for item_id in ids}
        eventually(lambda: ours(stage) <= connected + ITEMS, 10, "no more connections than before")


def ours(stage):
    """Connections of the library, as the server sees them."""
    return sum(client["name"] != "mine" for client in stage.redis.client_list())


def stored(stage):
    """Parent -> its child, as stored; each child once and with its own arguments."""
    waiting = stage.redis.hlen("vtrr:children:task")
    assert stage.redis.llen("vtrr:children:backlog:children") == waiting
    found = {}
    for lease in stage.app.children.engine.lease(count=100).items:
        (args, _) = decode(lease.body).call()
        assert args == [lease.item_id]
        found[lease.item_id.split("/")[0]] = lease.item_id
    return found
