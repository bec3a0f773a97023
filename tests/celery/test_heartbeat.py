"""A lease is renewed while its item runs, and by nobody else."""

import os
import time
from contextlib import ExitStack, contextmanager, suppress
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from tests.celery.station import CELERY, RELEASED, TIMED_OUT, Station
from tests.servers import Server
from tests.waiting import eventually

POOLS = [("prefork", "trigger"), ("prefork", "direct"), ("threads", "trigger"),
         ("gevent", "direct"), ("solo", "direct")]  # fmt: skip


@pytest.fixture
def make_station(tmp_path):
    """Make stations with a heartbeat, which end with the test."""
    with ExitStack() as stack:

        def make(dispatch, *, ready=True, **options):
            options = {"heartbeat": True, "lease_seconds": 1.0} | options
            station = stack.enter_context(Station(tmp_path, dispatch, **options))
            station.one_more_worker(ready=ready)
            return station

        yield make


@contextmanager
def watched_events(app):
    """Listen to workers; gives what returns the kinds of the events of one item so far."""
    events = []
    with app.connection() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": events.append})
        with receiver.consumer_context(wakeup=False) as (listening, _, _):

            def kinds(item_id):
                with suppress(TimeoutError):
                    while True:
                        listening.drain_events(timeout=0.1)
                return [event["type"] for event in events if event.get("uuid") == item_id]

            kinds("")  # kombu subscribes when it listens for the first time
            yield kinds


def test_an_item_of_ten_leases_runs_once_in_every_pool(make_station):
    """Another worker is there that would take what expires."""
    stations = [make_station(dispatch, ready=False, pool=pool) for pool, dispatch in POOLS]
    for station in stations:
        station.worker.wait_ready()
        station.items = [station.queue("linger") for _ in range(station.concurrency)]
    for station in stations:
        for item_id in station.items:
            station.wait_runs_of(item_id, 1)
    stations[0].one_more_worker()
    for station in stations:
        eventually(lambda s=station: len(s.traces.ends()) == len(s.items), 30, "their ends")
        station.wait_empty()
        runs = station.traces.runs()
        assert sorted(run["id"] for run in runs) == sorted(station.items), station.pool
        assert {run["timeouts"] for run in runs} == {0}, station.pool


def test_a_renewal_is_one_call_however_many_run(make_station):
    """And none while nothing runs."""
    station = make_station("direct", concurrency=4, heartbeat=0.1)
    items = [station.running("hold") for _ in range(4)]
    leases = {lease.item_id: lease.expires_at_ms for lease in station.inspector.leases()}

    def renewed():
        later = {lease.item_id: lease.expires_at_ms for lease in station.inspector.leases()}
        return all(later[item_id] > leases[item_id] for item_id in items) and later

    later = eventually(renewed, 5, "renewals")
    assert len(set(later.values())) == 1
    station.let_go(*items)
    station.wait_empty()
    before = station.redis.info("commandstats")["cmdstat_evalsha"]["calls"]
    station.let_pass(1.5)
    assert station.redis.info("commandstats")["cmdstat_evalsha"]["calls"] - before < 5


@pytest.mark.parametrize(("pool", "dispatch"), [("prefork", "trigger"), ("threads", "direct")])
def test_leases_outlive_the_broker(make_station, dispatch, pool):
    """It is away for three leases: nothing is released, reclaimed or run twice."""
    with Server() as broker:
        station = make_station(dispatch, pool=pool, broker=broker)
        item_id = station.running("hold")
        (before,) = station.inspector.leases()
        broker.stop()
        station.worker.wait_for_log("Cannot connect")
        until = before.expires_at_ms + 3000
        eventually(lambda: station.inspector.leases()[0].expires_at_ms > until, 20, "renewals")
        assert station.inspector.leases()[0].token == before.token
        broker.start()
        station.let_go(item_id)
        assert station.timeouts(item_id, 1) == [0]


def test_a_run_that_has_lost_its_lease_is_stopped_on_request(make_station, dispatch):
    """Quietly: the result is that of the run that holds the lease now."""
    station = make_station(dispatch, on_lease_lost="terminate")
    first = station.worker
    item_id = station.running("hold_and_tell", then="hold_again")
    first.signal(SIGSTOP)
    station.one_more_worker()
    station.wait_runs_of(item_id, 2)
    first.signal(SIGCONT)
    stopped = "stopped by SystemExit"
    eventually(lambda: stopped in station.events(item_id), 15, "the end of the first run")
    first.wait_for_log("has lost its lease while it runs")
    first.wait_for_log("its lease was no longer held when it ended")
    assert station.state_of(item_id) in {"PENDING", "STARTED"}
    station.let_go(item_id)
    assert station.timeouts(item_id, 2) == TIMED_OUT
    station.wait_state(item_id, "SUCCESS")
    assert "on_failure" not in " ".join(station.events(item_id))


@pytest.mark.parametrize("dispatch", ["direct"])
def test_a_run_is_stopped_while_the_broker_is_away(make_station, dispatch):
    """Celery's loop stands still then; the run ends all the same, and once more after it."""
    with Server() as broker:
        station = make_station(dispatch, broker=broker, on_lease_lost="terminate", heartbeat=0.2)
        item_id = station.running("hold_and_tell")
        broker.stop()
        station.worker.wait_for_log("Cannot connect")
        (lease,) = station.inspector.leases()
        assert station.vtrr.engine.release(item_id, lease.token).held
        stopped = "stopped by SystemExit"
        eventually(lambda: stopped in station.events(item_id), 10, "the end of the first run")
        assert not broker.is_running()
        broker.start()
        assert station.timeouts(item_id, 2) == RELEASED
        station.check_slots()


@pytest.mark.parametrize("dispatch", ["direct"])
def test_a_run_that_asked_for_a_retry_goes_on(make_station, dispatch):
    """It gave its lease up itself: that is no lost lease, and nobody stops it."""
    station = make_station(dispatch, on_lease_lost="terminate", heartbeat=0.05)
    item_id = station.running("retry_and_hold")
    station.wait_runs_of(item_id, 2)
    station.let_pass(1)
    station.let_go(item_id)
    eventually(lambda: "went on" in station.events(item_id), 10, "the end of the first run")
    assert "has lost its lease" not in station.worker.log()
    station.wait_empty()


def test_a_greenlet_that_has_lost_its_lease_is_stopped_on_request(make_station):
    """Where Celery can: 5.4 has no way to stop a greenlet, and the worker says so."""
    station = make_station("direct", pool="gevent", on_lease_lost="terminate", heartbeat=0.2)
    item_id = station.running("hold_and_tell")
    (lease,) = station.inspector.leases()
    assert station.vtrr.engine.release(item_id, lease.token).held
    if CELERY < (5, 5):
        station.worker.wait_for_log("this pool can't stop a run")
        station.let_go(item_id)
    else:
        stopped = "stopped by GreenletExit"
        eventually(lambda: stopped in station.events(item_id), 15, "the end of the first run")
    assert station.timeouts(item_id, 2) == RELEASED


@pytest.mark.skipif(CELERY < (5, 5), reason="cannot stop a greenlet")
@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_a_stopped_run_is_no_success(tmp_path, pool):
    """To those who watch the worker's events, as Flower does."""
    options = {"heartbeat": 0.2, "lease_seconds": 60, "on_lease_lost": "terminate"}
    with (
        Station(tmp_path, "direct", pool=pool, **options) as station,
        watched_events(station.app.app) as kinds,
    ):
        station.one_more_worker("-E")
        item_id = station.running("hold")
        (lease,) = station.inspector.leases()
        assert station.vtrr.engine.release(item_id, lease.token).held
        assert station.timeouts(item_id, 2) == RELEASED
        eventually(lambda: len(kinds(item_id)) >= 6, 10, "all events")
        found = sorted(kinds(item_id))
    each = ["task-received", "task-started"]
    assert found == sorted([*each, "task-rejected", *each, "task-succeeded"])


@pytest.mark.parametrize(("pool", "dispatch"), [("prefork", "trigger"), ("threads", "direct")])
def test_a_run_that_has_lost_its_lease_goes_on_by_default(make_station, dispatch, pool):
    """Its ack is refused. A pool that can't stop a run does the same and says so."""
    word = "terminate" if pool == "threads" else "continue"
    station = make_station(dispatch, pool=pool, on_lease_lost=word, heartbeat=0.2)
    item_id = station.running("hold", then="hold_again")
    (lease,) = station.inspector.leases()
    assert station.vtrr.engine.release(item_id, lease.token).held
    station.wait_runs_of(item_id, 2)
    station.worker.wait_for_log("has lost its lease while it runs")
    if pool == "threads":
        station.worker.wait_for_log("this pool can't stop a run")
    station.traces.open(item_id)
    station.worker.wait_for_log("its lease was no longer held when it ended")
    assert len(station.inspector.leases()) == 1
    station.let_go(item_id)
    assert station.timeouts(item_id, 2) == RELEASED


def test_a_solo_pool_says_once_that_it_cannot_stop_a_run(make_station):
    """While the run goes on, not when it has ended and the loop goes round again."""
    station = make_station("direct", pool="solo", on_lease_lost="terminate", heartbeat=0.1)
    item_id = station.running("hold")
    (lease,) = station.inspector.leases()
    assert station.vtrr.engine.release(item_id, lease.token).held
    station.worker.wait_for_log("this pool can't stop a run")
    station.let_pass(0.5)
    station.let_go(item_id)
    assert station.timeouts(item_id, 2) == RELEASED
    assert station.worker.log().count("this pool can't stop a run") == 1


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_a_function_can_ask_for_its_lease(make_station, pool):
    """It is held, until somebody took it away."""
    station = make_station("direct", pool=pool, heartbeat=False, lease_seconds=60)
    item_id = station.running("hold_and_ask")
    eventually(lambda: "held True" in station.events(item_id), 10, "the first answer")
    (lease,) = station.inspector.leases()
    assert station.vtrr.engine.release(item_id, lease.token).held
    station.traces.open(item_id)
    eventually(lambda: "held False" in station.events(item_id), 10, "the second answer")
    assert station.timeouts(item_id, 2) == RELEASED


@pytest.mark.parametrize("dispatch", ["direct"])
def test_a_hung_run_is_renewed_up_to_max_runtime(make_station, dispatch):
    """Then its lease ends, and the item runs again and is counted."""
    station = make_station(dispatch, max_runtime=2, on_lease_lost="terminate")
    started = time.monotonic()
    item_id = station.running("hold_and_tell")
    station.wait_runs_of(item_id, 2)
    assert time.monotonic() - started > 2
    assert station.timeouts(item_id, 2) == TIMED_OUT
    station.worker.wait_for_log("has run for more than max_runtime (2 s)")
    stopped = "stopped by SystemExit"
    eventually(lambda: stopped in station.events(item_id), 10, "the end of the first run")


def test_a_dead_worker_is_noticed_within_its_lease(make_station, dispatch):
    """By another one that is idle, without Beat and without any other work."""
    station = make_station(dispatch)
    first = station.worker
    item_id = station.running("hold")
    station.one_more_worker()
    station.let_pass(1.3)  # so that the lease that ends is a renewed one
    os.kill(first.pid, SIGKILL)
    killed = time.time()
    runs = station.wait_runs_of(item_id, 2)
    assert runs[1]["at"] - killed < 1 + 6
    assert station.timeouts(item_id, 2) == TIMED_OUT
