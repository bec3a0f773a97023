"""The figures of a run of ten thousand items are those of an independent count."""

import pytest

from tests.celery.station import Station
from tests.metrics.scraping import read
from tests.waiting import eventually

DEEDS = {"work": 9400, "fail": 400, "retry": 200}
ITEMS = sum(DEEDS.values())
QUEUE = "queue=fates"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_figures_of_ten_thousand_items(tmp_path):
    """Runs are counted by the task itself, in a list of its own."""
    with Station(tmp_path, "direct", pool="threads", concurrency=8) as station:
        for deed, count in DEEDS.items():
            station.queue_many(deed, count)
        before = read(station.vtrr, top=10)
        assert before["vtrr_queue_waiting_items", QUEUE] == ITEMS
        for number in range(4):
            labels = f"partition=p{number},{QUEUE}"
            assert before["vtrr_queue_partition_waiting_items", labels] == ITEMS / 4
        assert station.worker.is_running()
        runs = ITEMS + DEEDS["retry"]
        eventually(lambda: station.traces.count() == runs, 200, "all runs")
        station.wait_rest("fates", 30)

        def counted():
            found = read(station.vtrr)
            return found.get(("vtrr_queue_served_items_total", QUEUE)) == runs and found

        found = eventually(counted, 20, "the last counts")
        expected = {
            "waiting_items": 0, "running_items": 0, "dead_items": 0, "active_partitions": 0,
            "served_items_total": len(station.traces.runs()), "acked_items_total": ITEMS,
            "failed_items_total": DEEDS["fail"], "retried_items_total": DEEDS["retry"],
            "released_items_total": 0, "timed_out_items_total": 0, "died_items_total": 0,
            "waiting_time_seconds_count": runs, "run_time_seconds_count": runs,
        }  # fmt: skip
        assert {name: found[f"vtrr_queue_{name}", QUEUE] for name in expected} == expected
