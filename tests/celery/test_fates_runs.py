"""How a run ends decides the fate of its lease, pool by pool; the worker lives on."""

import psutil
import pytest

from tests.celery.station import ACKED, RELEASED, STATIONS, TIMED_OUT, lasting_station
from vtrr_queue.celery.request import KILL_GRACE_SECONDS


def runs(pid):
    """Whether a process is there and no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


PREFORK, NOT_SOLO = STATIONS[:2], STATIONS[:4]


@pytest.fixture(scope="module", params=STATIONS, ids="-".join)
def station(request, tmp_path_factory):
    """One worker for all rows."""
    pool, dispatch = request.param
    with lasting_station(tmp_path_factory.mktemp("runs"), dispatch, pool) as opened:
        yield opened


@pytest.mark.parametrize(
    ("deed", "fate", "state"),
    [
        ("work", ACKED, "SUCCESS"),
        ("fail", ACKED, "FAILURE"),
        ("run_out_of_memory", ACKED, "FAILURE"),
        ("ignore", ACKED, "PENDING"),
        ("retry", RELEASED, "SUCCESS"),
        ("requeue", RELEASED, "SUCCESS"),
        ("leave", TIMED_OUT, "SUCCESS"),
        ("interrupt", TIMED_OUT, "SUCCESS"),
    ],
)
def test_the_end_of_a_run_decides(station, deed, fate, state):
    """A return and an exception ack; `sys.exit()` is a death; the worker survives each."""
    item_id = station.queue(deed)
    assert station.timeouts(item_id, len(fate)) == fate
    station.wait_state(item_id, state)
    assert station.workers[-1].is_running()


@pytest.mark.parametrize("station", PREFORK, ids="-".join, indirect=True, scope="module")
def test_a_retry_at_once_does_not_overtake(station):
    """The state RETRY of the first run never replaces the result of the second."""
    for _ in range(12):
        item_id = station.queue("retry")
        assert station.timeouts(item_id, 2) == RELEASED
        station.wait_state(item_id, "SUCCESS")


def test_an_item_rejected_for_good_is_a_dead_letter(station):
    """`Reject(requeue=False)` keeps the item out of the queue, with its reason."""
    item_id = station.queue("reject")
    assert station.timeouts(item_id, 1) == [0]
    letter = station.dead_letter(item_id)
    assert "bad item" in letter.reason
    assert letter.timeouts == 0


@pytest.mark.parametrize("limit", ["soft_time_limit", "time_limit"])
def test_a_time_limit(station, limit):
    """A soft limit is an exception, a hard one a counted death; only prefork enforces them."""
    item_id = station.running("hold", **{limit: 0.4})
    if station.pool != "prefork":
        station.let_pass(0.6)
        station.let_go(item_id)
        fate, state = ACKED, "SUCCESS"
    elif limit == "soft_time_limit":
        fate, state = ACKED, "FAILURE"
    else:
        fate, state = TIMED_OUT, "SUCCESS"
    assert station.timeouts(item_id, len(fate)) == fate
    station.wait_state(item_id, state)


@pytest.mark.parametrize("station", PREFORK, ids="-".join, indirect=True, scope="module")
def test_a_hard_limit_beats_a_body_that_swallows_everything(station):
    """The rerun starts when the first process has had time to die, and it is dead."""
    item_id = station.running("swallow", time_limit=0.4)
    assert station.timeouts(item_id, 2) == TIMED_OUT
    first, second = station.traces.runs(item_id)
    assert second["at"] - first["at"] > 0.3 + KILL_GRACE_SECONDS  # the limit counts from before
    assert not runs(first["pid"])


@pytest.mark.parametrize("station", PREFORK, ids="-".join, indirect=True, scope="module")
@pytest.mark.parametrize("deed", ["die", "vanish"])
def test_the_death_of_the_process_is_counted(station, deed):
    """SIGKILL and `os._exit()` in a child; other pools have no process to lose but the worker."""
    item_id = station.queue(deed)
    assert station.timeouts(item_id, 2) == TIMED_OUT


@pytest.mark.parametrize("station", PREFORK, ids="-".join, indirect=True, scope="module")
def test_a_death_is_noticed_soon(station):
    """The item of a killed process runs again long before Celery's own check every five seconds."""
    for _ in range(4):
        item_id = station.queue("die")
        assert station.timeouts(item_id, 2) == TIMED_OUT
        first, second = station.traces.runs(item_id)
        assert second["at"] - first["at"] < 2.5


def test_revoke_with_terminate(station):
    """Prefork kills the run and the item is gone; elsewhere it runs to its end, once."""
    item_id = station.running("hold")
    station.app.app.control.revoke(item_id, terminate=True)
    if station.pool == "prefork":
        station.wait_state(item_id, "REVOKED")
    else:
        station.let_pass(0.5)
        station.let_go(item_id)
    assert station.timeouts(item_id, 1) == ACKED
    assert station.state_of(item_id) == ("REVOKED" if station.pool == "prefork" else "SUCCESS")


@pytest.mark.parametrize("station", NOT_SOLO, ids="-".join, indirect=True, scope="module")
def test_an_item_revoked_while_it_waits_never_runs(station):
    """A worker that knows of it drops the item when its turn comes (solo hears of it too late)."""
    blockers = [station.running("hold") for _ in range(station.concurrency)]
    item_id = station.queue("work")
    station.app.app.control.revoke(item_id)
    station.worker.wait_for_log(f"revoked: {item_id}")
    station.let_go(*blockers)
    station.wait_empty()
    assert station.traces.runs(item_id) == []
    assert station.state_of(item_id) == "REVOKED"
