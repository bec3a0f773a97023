"""A worker whose lease calls are never answered finds out later what they hold."""

import pytest

from tests.celery.station import ACKED, Station
from tests.proxy import Proxy
from tests.waiting import eventually


@pytest.mark.parametrize(("pool", "dispatch"), [("prefork", "trigger"), ("threads", "direct")])
def test_leases_of_unanswered_calls_are_found(tmp_path, dispatch, pool):
    """They need not end first, which would take ten minutes, and take no slot twice."""
    with Station(tmp_path, dispatch, pool=pool, lease_seconds=600) as station:
        state = station.state
        with Proxy((state.host, state.port)) as proxy:
            station.env["STATE_URL"] = proxy.url().rsplit("/", 1)[0]
            worker = station.one_more_worker()
            warm = station.queue("work")
            assert station.timeouts(warm, 1) == ACKED
            proxy.drop_replies(commands=("EVALSHA", "EVAL"))
            items = [station.queue("hold") for _ in range(5)]
            eventually(station.inspector.leases, 15, "leases nobody knows of")
            worker.wait_for_log("trying again")
            proxy.heal()
            for item_id in items[:2]:
                station.wait_runs_of(item_id, 1)
            assert len(station.inspector.leases()) == 2
            station.let_go(*items)
            for item_id in items:
                assert station.timeouts(item_id, 1) == ACKED
