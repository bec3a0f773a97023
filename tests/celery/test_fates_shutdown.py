"""A worker that ends finishes its items or gives them back at once; nobody counts a timeout."""

import signal

import pytest

from tests.celery.station import ACKED, CELERY, RELEASED, STATIONS, Station
from tests.waiting import eventually

OLD = CELERY < (5, 5)

ENDINGS = {
    "warm": lambda worker: worker.signal(signal.SIGTERM),
    "cold": lambda worker: worker.signal(signal.SIGQUIT),
    "group": lambda worker: worker.signal_group(signal.SIGTERM),
}
WORDS = {
    "warm": "Warm shutdown (MainProcess)",
    "cold": "Cold shutdown (MainProcess)" if OLD else "again will terminate all running tasks!",
    "group": "Warm shutdown (MainProcess)",
}
FATES = {
    ("prefork", "warm"): ACKED,
    ("prefork", "cold"): RELEASED,
    ("prefork", "group"): RELEASED,  # the child dies, the main process waits for it
    ("threads", "warm"): ACKED,
    ("threads", "cold"): RELEASED if OLD else ACKED,
    ("solo", "warm"): ACKED,
    ("solo", "cold"): ACKED if OLD else RELEASED,  # NotImplementedError in the body
}


@pytest.fixture(scope="module", params=STATIONS, ids="-".join)
def station(request, tmp_path_factory):
    """Each test ends the worker; the one that reruns its items is the next test's."""
    pool, dispatch = request.param
    with Station(tmp_path_factory.mktemp("shutdown"), dispatch, pool=pool) as opened:
        yield opened


@pytest.mark.parametrize("ending", ["warm", "cold"])
def test_a_shutdown(station, ending):
    """What runs is acked or back before the worker is gone; what comes meanwhile waits."""
    check_shutdown(station, ending)


@pytest.mark.parametrize("station", STATIONS[:2], ids="-".join, indirect=True, scope="module")
def test_a_shutdown_of_the_whole_group(station):
    """As systemd does it; a worker of another pool is its whole group."""
    check_shutdown(station, "group")


def check_shutdown(station, ending):
    """End the worker while an item runs; the next worker runs what is left."""
    worker = station.worker
    item_id = station.running("hold")
    ENDINGS[ending](worker)
    worker.wait_for_log(WORDS[ending])
    late = station.queue("work")
    fate = FATES[station.pool, ending]
    if station.pool == "threads" and fate is RELEASED:  # nothing can end a thread
        eventually(lambda: station.inspector.depth().running == 0, what="the release")
        station.let_go(item_id)
    elif fate is ACKED:
        station.let_go(item_id)
    worker.wait()
    depth = station.inspector.depth()
    assert (depth.waiting, depth.running) == (len(fate), 0)
    assert station.worker is not worker
    assert station.timeouts(item_id, len(fate)) == fate
    assert station.timeouts(late, 1) == [0]


@pytest.mark.skipif(OLD, reason="Celery 5.4 ignores SIGQUIT after SIGTERM")
@pytest.mark.parametrize("station", STATIONS[:2], ids="-".join, indirect=True, scope="module")
def test_a_warm_shutdown_made_cold(station):
    """SIGQUIT during a warm shutdown cuts the run short, and the item is back at once."""
    worker = station.worker
    item_id = station.running("hold")
    worker.signal(signal.SIGTERM)
    worker.wait_for_log(WORDS["warm"])
    worker.signal(signal.SIGQUIT)
    worker.wait()
    depth = station.inspector.depth()
    assert (depth.waiting, depth.running) == (1, 0)
    assert station.worker is not worker
    assert station.timeouts(item_id, 2) == RELEASED
