"""SIGKILL at any moment: what ran runs again and counts one timeout; nothing else does."""

import os
import signal
from collections import Counter

import pytest

from tests.celery.station import ACKED, TIMED_OUT, Station
from tests.stage import DISPATCHES
from tests.waiting import eventually

ITEMS = 500


@pytest.fixture(scope="module", params=DISPATCHES)
def station(request, tmp_path_factory):
    """Workers of two processes, under a lease of two seconds."""
    folder = tmp_path_factory.mktemp("kills")
    with Station(folder, request.param, lease_seconds=2) as opened:
        yield opened


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def test_a_killed_child(station):
    """Its item runs again in the same worker; the other child goes on."""
    worker = station.worker
    item_id = station.running("hold")
    (run,) = station.traces.runs(item_id)
    kill(run["pid"])
    other = station.queue("work")
    assert station.timeouts(item_id, 2) == TIMED_OUT
    assert station.timeouts(other, 1) == ACKED
    assert worker.is_running()


def test_a_killed_worker(station):
    """Its pool dies with it; another worker runs the item when the lease is over."""
    worker = station.worker
    item_id = station.running("hold")
    kill(worker.pid)
    worker.wait()
    waiting = station.queue("work")
    assert station.worker is not worker
    assert station.timeouts(item_id, 2) == TIMED_OUT
    first, second = station.traces.runs(item_id)
    assert first["worker"] != second["worker"]
    assert station.timeouts(waiting, 1) == ACKED


def test_an_idle_worker_takes_over(station):
    """A worker that has seen nothing to do finds the item of a dead one within seconds."""
    workers = [station.worker, station.one_more_worker()]
    item_id = station.running("hold")
    (run,) = station.traces.runs(item_id)
    doomed = next(worker for worker in workers if run["worker"].startswith(worker.name))
    kill(doomed.pid)
    assert station.timeouts(item_id, 2) == TIMED_OUT
    first, second = station.traces.runs(item_id)
    assert second["worker"] != first["worker"]
    assert second["at"] - first["at"] < station.app.LEASE_SECONDS + 8
    station.end_worker(doomed)


def test_nothing_is_lost_over_many_items(station):
    """A child and a whole worker die amid 500 items: only what they ran runs twice."""
    doomed, _survivor = station.worker, station.one_more_worker()
    item_ids = station.queue_many("work", ITEMS)
    before = station.traces.count()
    eventually(lambda: station.traces.count() > before + ITEMS // 5, what="a fifth of the runs")
    kill(doomed.children()[0])
    eventually(lambda: station.traces.count() > before + ITEMS // 2, what="half of the runs")
    kill(doomed.pid)
    station.wait_empty()
    runs = {item_id: [] for item_id in item_ids}
    for run in station.traces.runs():
        if run["id"] in runs:
            runs[run["id"]].append(run["timeouts"])
    found = Counter(map(tuple, runs.values()))
    hit = found.pop((0, 1), 0) + found.pop((1,), 0)  # killed amid the run, or just before it
    assert found == {(0,): ITEMS - hit}
    assert 0 < hit <= 1 + station.concurrency
