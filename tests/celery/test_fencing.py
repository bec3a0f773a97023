"""A worker paused past its leases can't touch those that another worker holds by now."""

import signal

import pytest

from tests.celery.station import TIMED_OUT, Station
from tests.stage import DISPATCHES
from tests.waiting import eventually
from vtrr_queue import LeaseLost

DEEDS = ("hold", "hold_and_retry", "hold_and_requeue", "hold_and_renew")


@pytest.fixture(scope="module", params=DISPATCHES)
def station(request, tmp_path_factory):
    """Two workers; the first was paused with four items running, which the second runs again."""
    folder = tmp_path_factory.mktemp("fencing")
    with Station(folder, request.param, concurrency=len(DEEDS) + 1, lease_seconds=2) as opened:
        first = opened.worker
        opened.items = {deed: opened.running(deed, then="hold_again") for deed in DEEDS}
        first.signal_group(signal.SIGSTOP)
        opened.one_more_worker()
        for item_id in opened.items.values():
            _, second = opened.wait_runs_of(item_id, 2)
            wait_renewed(opened, second["token"])
        first.signal_group(signal.SIGCONT)
        opened.holding.clear()  # each test ends its own
        yield opened
        opened.wait_empty()


@pytest.fixture(autouse=True)
def _tidy(station):
    yield
    station.tidy()


def wait_renewed(station, token):
    """Wait until a second run has made its lease last for a minute, and return the lease."""

    def find():
        leases = station.inspector.leases()
        return next((held for held in leases if held.token == token and lasts(held)), None)

    def lasts(lease):
        return lease.expires_at_ms - lease.started_at_ms > 50_000

    return eventually(find, what="the renewal")


def newer_lease(station, item_id):
    """Return the one lease of the item, which is the second run's, and the item's record."""
    first, second = station.traces.runs(item_id)
    assert first["worker"] != second["worker"]
    assert [first["timeouts"], second["timeouts"]] == TIMED_OUT
    (lease,) = (held for held in station.inspector.leases() if held.item_id == item_id)
    assert lease.token == second["token"] != first["token"]
    assert lease.holder == second["worker"]
    return lease, station.redis.hget("vtrr:fates:task", item_id)


@pytest.mark.parametrize(
    ("deed", "word"),
    [
        ("hold", "its lease was no longer held"),
        ("hold_and_retry", "dropped: its lease ended"),
        ("hold_and_requeue", "its lease was no longer held"),
        ("hold_and_renew", "its lease was no longer held"),
    ],
)
def test_the_first_worker_ends_its_run(station, deed, word):
    """Its ack, retry, release and renewal change nothing; the second worker's ack counts."""
    item_id = station.items[deed]
    lease = newer_lease(station, item_id)
    station.traces.open(item_id)
    first = station.workers[0]
    eventually(
        lambda: any(item_id in line and word in line for line in first.log().splitlines()),
        what="the stale end",
    )
    assert newer_lease(station, item_id) == lease
    if deed == "hold_and_renew":
        assert "lease lost" in station.events(item_id)
    station.let_go(item_id)
    eventually(lambda: not station.vtrr.engine.known([item_id]), what="the second run's ack")
    station.wait_state(item_id, "SUCCESS")
    assert len(station.traces.runs(item_id)) == 2
    assert station.inspector.audit() == []


def test_the_old_token_opens_nothing(station):
    """Each call with the first token is refused, and the newer lease stays as it is."""
    item_id = station.running("hold", then="hold_again")
    first, second = station.wait_runs_of(item_id, 2)
    renewed = wait_renewed(station, second["token"])
    engine, old = station.vtrr.engine, first["token"]
    assert station.vtrr.ack(item_id, old) is False
    assert not engine.release(item_id, old, timed_out=True).held
    assert not engine.retry(item_id, old, delay_seconds=0, retries=1, body=b"").held
    assert not engine.bury(item_id, old, "stale").held
    with pytest.raises(LeaseLost):
        engine.renew(item_id, old)
    assert wait_renewed(station, second["token"]) == renewed
