"""What a run sees of its lease, which hooks it calls, and what can't become a run at all."""

import pytest

from tests.celery.station import ACKED, RELEASED, STATIONS, TIMED_OUT, lasting_station
from vtrr_queue.model import NewItem
from vtrr_queue.payload import encode


@pytest.fixture(scope="module", params=STATIONS, ids="-".join)
def station(request, tmp_path_factory):
    """One worker for all tests."""
    pool, dispatch = request.param
    with lasting_station(tmp_path_factory.mktemp("requests"), dispatch, pool) as opened:
        yield opened


def test_a_run_knows_its_lease(station):
    """Item, partition and token are those of the lease it runs under."""
    item_id = station.running("hold")
    (run,) = station.traces.runs(item_id)
    (lease,) = station.inspector.leases()
    assert (run["id"], run["item_id"], run["partition"]) == (item_id, item_id, "p")
    assert run["token"] == lease.token
    assert run["worker"] == lease.holder
    assert len(bytes.fromhex(run["token"])) == 16
    station.let_go(item_id)
    assert station.timeouts(item_id, 1) == ACKED


@pytest.mark.parametrize(("deed", "fate"), [("leave", TIMED_OUT), ("requeue", RELEASED)])
def test_a_rerun_has_a_token_of_its_own(station, deed, fate):
    """The count rises with a lost lease only; everything else stays the item's."""
    item_id = station.queue(deed)
    assert station.timeouts(item_id, 2) == fate
    first, second = station.traces.runs(item_id)
    assert first["token"] != second["token"]
    assert first["item_id"] == second["item_id"] == item_id
    assert first["partition"] == second["partition"] == "p"
    assert first["retries"] == second["retries"] == 0


@pytest.mark.parametrize(
    ("deed", "events"),
    [
        ("work", ["before_start", "run", "on_success", "after_return SUCCESS"]),
        ("fail", ["before_start", "run", "on_failure ValueError", "after_return FAILURE"]),
        (
            "retry",
            [
                *("before_start", "run", "retry", "on_retry"),
                *("before_start", "run", "on_success", "after_return SUCCESS"),
            ],
        ),
        (
            "leave",  # nobody failed: the item is put back
            ["before_start", "run", "before_start", "run", "on_success", "after_return SUCCESS"],
        ),
    ],
)
def test_the_hooks_of_a_custom_base(station, deed, events):
    """Each is called once for what it stands for, and so is an overridden `retry`."""
    item_id = station.queue(deed)
    station.wait_empty()
    station.wait_events(item_id, events)


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("foreign", encode("other.task", ["work"], {}), "task 'other.task' is not the task"),
        ("rubbish", b"\x00rubbish", ""),
        ("broken", b"fates.act\nj\n\n[[", ""),
        ("no_call", b"fates.act\nj\n\n42", ""),
        ("refused", encode("fates.act", ["work"], {}, serializer="pickle"), "pickle"),
        ("headless", b"fates.act\nj\n{\n[[], {}, {}]", ""),
    ],
)
def test_what_cannot_run_is_a_dead_letter(station, name, body, reason):
    """It keeps its body and its reason, is logged as an error, and holds up nobody."""
    item_id = f"{name}-{next(station.ids)}"
    station.vtrr.store("p", [NewItem(item_id, body)])
    good = station.queue("work")
    letter = station.dead_letter(item_id)
    assert letter.body == body
    assert letter.partition == "p"
    assert letter.reason
    assert reason in letter.reason
    station.worker.wait_for_log(f"ERROR/MainProcess] item {item_id} of queue 'fates' is a dead")
    assert station.timeouts(good, 1) == ACKED
    assert station.traces.runs(item_id) == []


def test_a_call_with_wrong_arguments_fails_as_usual(station):
    """A TypeError of the call is an ordinary exception, not a dead letter."""
    item_id = f"wrong-{next(station.ids)}"
    station.app.act.queue("p", [{"id": item_id, "kwargs": {"unknown": 1}}])
    station.wait_empty()
    station.wait_state(item_id, "FAILURE")
    assert item_id not in [letter.item_id for letter in station.inspector.dead_letters()]
