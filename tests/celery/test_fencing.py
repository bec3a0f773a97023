"""A worker paused past its leases can't touch those that another worker holds by now."""

import signal
from functools import partial

import pytest

from tests.celery.station import Station
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
            wait_renewed(opened, item_id)
        first.signal_group(signal.SIGCONT)
        opened.holding.clear()  # each test ends its own
        yield opened
        opened.let_go(*opened.items.values())  # what a failed test left
        opened.wait_empty()


def wait_renewed(station, item_id):
    """Wait until a later run has made its lease last for a minute, and return the lease."""

    def find():
        leases = station.inspector.leases()
        return next((held for held in leases if held.item_id == item_id and lasts(held)), None)

    def lasts(lease):
        return lease.expires_at_ms - lease.started_at_ms > 50_000

    return eventually(find, 20, "the renewal")


def newer_lease(station, item_id):
    """Return the one lease of the item, which is the latest run's, and the item's record."""
    runs = station.traces.runs(item_id)
    assert [run["timeouts"] for run in runs] == list(range(len(runs)))
    (lease,) = (held for held in station.inspector.leases() if held.item_id == item_id)
    assert lease.token == runs[-1]["token"] != runs[0]["token"]
    assert lease.holder == runs[-1]["worker"]
    return lease, station.redis.hget("vtrr:fates:task", item_id)


def says(worker, item_id, word):
    """Whether a line of the worker's log has both."""
    return any(item_id in line and word in line for line in worker.log().splitlines())


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("hold", ["its lease was no longer held"]),
        ("hold_and_retry", ["dropped: its lease ended", "retry: Retry in 0s"]),
        ("hold_and_requeue", ["its lease was no longer held"]),
        ("hold_and_renew", ["its lease was no longer held"]),
    ],
    ids=DEEDS,
)
def test_the_first_worker_ends_its_run(station, deed, words):
    """Its ack, retry, release and renewal change nothing; the second worker's ack counts."""
    item_id = station.items[deed]
    lease, runs = newer_lease(station, item_id), len(station.traces.runs(item_id))
    first = station.workers[0]
    assert station.traces.runs(item_id)[0]["worker"].startswith(first.name)
    assert not lease[0].holder.startswith(first.name)
    station.traces.open(item_id)
    for word in words:
        eventually(partial(says, first, item_id, word), what=word)
    assert newer_lease(station, item_id) == lease
    if deed == "hold_and_renew":
        assert "lease lost" in station.events(item_id)
    station.let_go(item_id)
    eventually(lambda: not station.vtrr.engine.known([item_id]), what="the second run's ack")
    station.wait_state(item_id, "SUCCESS")
    assert len(station.traces.runs(item_id)) == runs
    assert station.inspector.audit() == []


def test_the_old_token_opens_nothing(station):
    """Each call with the first token is refused, and the newer lease stays as it is."""
    item_id = station.running("hold", then="hold_again")
    wait_renewed(station, item_id)
    before = newer_lease(station, item_id)
    engine, old = station.vtrr.engine, station.traces.runs(item_id)[0]["token"]
    assert station.vtrr.ack(item_id, old) is False
    assert not engine.release(item_id, old, timed_out=True).held
    assert not engine.retry(item_id, old, delay_seconds=0, retries=1, body=b"").held
    assert not engine.bury(item_id, old, "stale").held
    with pytest.raises(LeaseLost):
        engine.renew(item_id, old)
    assert newer_lease(station, item_id) == before
