"""Statistics of a queue are what its workers did."""

import pytest

from tests.celery.station import Station
from tests.waiting import eventually

DEEDS = {"work": 30, "fail": 4, "retry": 3, "leave": 2, "requeue": 1, "reject": 1}


def settled(station, served):
    """The statistics, once so many leases are counted and so many ends."""

    def look():
        found = station.inspector.statistics()
        ends = found.acked + found.retried + found.released + found.timed_out + found.dead
        assert found.served == ends == found.ran.count == served, found
        return found

    return eventually(look, 60, "all leases and ends to be counted")


@pytest.mark.parametrize("charge", ["weight", "runtime"])
def test_each_run_is_counted_by_how_it_ended(tmp_path, dispatch, charge):
    """Leases, ends, waits and run times; what partitions were charged is in the queue's unit."""
    with Station(tmp_path, dispatch, charge=charge) as station:
        assert station.worker.is_running()
        eventually(lambda: station.inspector.statistics().since_ms, 20, "the worker to count")
        for deed, count in DEEDS.items():
            station.queue_many(deed, count)
        reruns = DEEDS["retry"] + DEEDS["leave"] + DEEDS["requeue"]
        served = sum(DEEDS.values()) + reruns
        found = settled(station, served)
        ends = (found.acked, found.failed, found.retried, found.released, found.timed_out)
        finished = sum(DEEDS.values()) - DEEDS["reject"]
        assert ends == (finished, DEEDS["fail"], DEEDS["retry"], DEEDS["requeue"], DEEDS["leave"])
        assert found.dead == DEEDS["reject"]
        assert found.waited.count == served
        assert set(found.service) == {f"p{n}" for n in range(4)}
        expected = served if charge == "weight" else found.ran.sum_seconds
        assert sum(found.service.values()) == pytest.approx(expected, rel=0.01)
        assert 300 <= found.window_seconds < 360


def test_the_last_counts_of_a_worker_that_ends_are_kept(tmp_path):
    with Station(tmp_path, "direct") as station:
        station.queue_many("work", 10)
        assert station.worker.is_running()
        station.wait_rest("fates", 60)
        station.worker.stop()
        found = station.inspector.statistics()
        assert (found.served, found.acked) == (10, 10)


def test_statistics_can_be_turned_off(tmp_path):
    """Then there is no key for them."""
    with Station(tmp_path, "direct", statistics=False) as station:
        station.queue_many("leave", 2)
        assert station.worker.is_running()
        station.wait_rest("fates", 60)
        station.worker.stop()
        assert station.redis.keys("vtrr:fates:st*") == []
        assert station.inspector.statistics().served == 0
