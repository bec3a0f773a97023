"""How long an item of what was killed is away: many kills, no Beat, an otherwise idle queue.

Measured at the server: from the kill until the item is no longer leased under the old token, which
is when it can be served again.
"""

import os
import signal
import statistics
import time

import pytest

from tests.celery.station import Station
from tests.stage import DISPATCHES
from tests.waiting import eventually

KILLS = int(os.environ.get("CHAOS_KILLS", "20"))
LEASE_SECONDS = 10.0
SLOTS = 4
AT_ONCE = 5
NOISE_SECONDS = 0.5
"""Allowance for a machine that stands still."""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


@pytest.fixture(params=DISPATCHES)
def dispatch(request):
    return request.param


def measure(station, items, since):
    """Wait until the items are servable again; seconds from `since` for each."""
    tokens = {item_id: station.traces.runs(item_id)[0]["token"] for item_id in items}
    took = {}

    def look():
        for item_id, token in tokens.items():
            if item_id not in took and not station.redis.hexists("vtrr:fates:lease", token):
                took[item_id] = time.time() - since[item_id]
        return len(took) == len(tokens)

    eventually(look, 40, "the recovery")
    return list(took.values())


def report(case, dispatch, took, bound):
    print(
        f"{case}, {dispatch}: {len(took)} items, median {statistics.median(took):.2f} s, "
        f"longest {max(took):.2f} s, bound {bound:g} s"
    )
    assert max(took) <= bound + NOISE_SECONDS


def rounds(station):
    """One worker's pool of items that run, again and again, until there were enough kills."""
    for _ in range(-(-KILLS // SLOTS)):
        items = [station.queue("hold") for _ in range(SLOTS)]
        for item_id in items:
            station.wait_runs_of(item_id, 1)
        yield items
        for item_id in items:
            station.wait_runs_of(item_id, 2)
        station.let_go(*items)
        station.wait_empty()


def test_a_killed_child(tmp_path, dispatch):
    with Station(tmp_path, dispatch, concurrency=SLOTS) as station:
        station.one_more_worker()
        took = []
        for items in rounds(station):
            since = {}
            for item_id in items:
                os.kill(station.traces.runs(item_id)[0]["pid"], signal.SIGKILL)
                since[item_id] = time.time()
            took += measure(station, items, since)
        report("child SIGKILL", dispatch, took, 6)


def test_a_hard_limit(tmp_path, dispatch):
    """Counted from the limit."""
    with Station(tmp_path, dispatch, concurrency=SLOTS) as station:
        station.one_more_worker()
        took = []
        for _ in range(-(-KILLS // SLOTS)):
            items = [station.queue("hold", time_limit=1) for _ in range(SLOTS)]
            since = {i: station.wait_runs_of(i, 1)[0]["at"] + 1 for i in items}
            took += measure(station, items, since)
            station.wait_empty()
        report("hard time limit", dispatch, took, 6)


@pytest.mark.parametrize(
    ("case", "number", "whole_group"),
    [("cold shutdown", signal.SIGQUIT, False), ("process-group SIGTERM", signal.SIGTERM, True)],
)
def test_a_shutdown(tmp_path, dispatch, case, number, whole_group):
    """One kill a worker, with another worker waiting."""
    with Station(tmp_path, dispatch, concurrency=1) as station:
        took = []
        worker = station.one_more_worker()
        for _ in range(KILLS):
            item_id = station.queue("hold")
            station.wait_runs_of(item_id, 1)
            following = station.one_more_worker()
            (worker.signal_group if whole_group else worker.signal)(number)
            took += measure(station, [item_id], {item_id: time.time()})
            station.let_go(item_id)
            station.wait_empty()
            station.end_worker(worker)
            worker = following
        report(case, dispatch, took, 1)


def test_a_killed_worker(tmp_path, dispatch):
    """Its lease must end first; an idle worker looks."""
    options = {"lease_seconds": LEASE_SECONDS, "heartbeat": True}
    with Station(tmp_path, dispatch, concurrency=1, **options) as station:
        took = []
        for _ in range(-(-KILLS // AT_ONCE)):
            workers = [station.one_more_worker() for _ in range(AT_ONCE)]
            items = [station.queue("hold") for _ in workers]
            holders = {station.wait_runs_of(i, 1)[0]["worker"].split("@")[0]: i for i in items}
            station.one_more_worker()
            since = {}
            for at, worker in enumerate(workers):
                station.let_pass(0.9 * at)  # at different distances from the last renewal
                os.kill(worker.pid, signal.SIGKILL)
                since[holders[worker.name]] = time.time()
            took += measure(station, items, since)
            clear(station, items)
        report("worker SIGKILL, lease 10 s", dispatch, took, LEASE_SECONDS + 6)


def clear(station, items):
    """Let the reruns end, and end the workers."""
    station.let_go(*items)
    station.wait_empty()
    for worker in list(station.workers):
        station.end_worker(worker)
