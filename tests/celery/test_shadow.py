"""Plain tasks are watched: what was recorded, what the report says, that nothing else happens."""

import json

import pytest
from celery import Celery, group, signals

from tests.stage import load_app
from tests.waiting import eventually
from vtrr_queue import ArgumentError, ArgumentTypeError
from vtrr_queue.celery.shadow import Call, main, read_folder, report, watch
from vtrr_queue.simulate import Fair, Fifo
from vtrr_queue.simulate.replay import compare, most_at_once, replay

PATIENCE = 30


@pytest.fixture
def shadowed(redis_url, tmp_path, start_worker):
    """The watched app, with a worker of two processes."""
    base = redis_url.rsplit("/", 1)[0]
    env = {"BROKER_URL": f"{base}/0", "BACKEND_URL": f"{base}/1", "FOLDER": str(tmp_path / "seen")}
    app = load_app("shadowed", env)
    app.worker = start_worker("shadowed", env=env, concurrency=2)
    app.folder = tmp_path / "seen"
    yield app
    app.recorder.stop()
    backend = app.app.backend
    # Results that die later would connect once more, to take back what they have subscribed to.
    backend.remove_pending_result = lambda result: result
    backend.result_consumer.stop()  # Celery closes neither its subscription nor its connections
    backend.client.connection_pool.disconnect()
    app.app.close()


def seen(shadowed, count):
    """Wait for so many recorded calls: a result is there before its run is recorded."""
    folder = shadowed.folder
    eventually(lambda: folder.is_dir() and len(read_folder(folder)) >= count, what="the records")
    return read_folder(folder)


def test_a_flood_is_seen_with_a_real_worker(shadowed, capsys):
    """Who floods, who waits behind it, and how long they would wait if they took turns."""
    flood = group(shadowed.work.s("flood", 0.02) for _ in range(80)).apply_async()
    small = [shadowed.work.delay("small", 0.02) for _ in range(3)]
    assert flood.get(timeout=PATIENCE) == ["flood"] * 80
    assert [result.get(timeout=PATIENCE) for result in small] == ["small"] * 3
    calls = seen(shadowed, 83)
    assert [call.partition for call in calls] == ["flood"] * 80 + ["small"] * 3
    assert all(call.sent <= call.started < call.ended for call in calls)
    assert most_at_once(calls) == 2
    fifo, fair = replay(Fifo(), calls, slots=2), replay(Fair(), calls, slots=2)
    waits = {one.partition: one for one in compare(calls, fifo, fair)}
    assert waits["small"].recorded[0] > 0.4
    assert abs(waits["small"].fifo[-1] - waits["small"].recorded[-1]) < 0.5
    assert waits["small"].fair[-1] < waits["small"].fifo[-1] / 3
    assert main([str(shadowed.folder), "--slots", "2"]) == 0
    said = capsys.readouterr().out
    print(said)
    assert "83 calls in" in said
    assert "'flood' took 9" in said
    assert "the most 'small': p95 0." in said


def test_only_what_is_asked_for_is_recorded(shadowed):
    """A call of nobody, a function that fails and another task run as ever, unrecorded."""
    tenants = ["nobody", "broken", "somebody"]
    assert [shadowed.work.delay(one).get(timeout=PATIENCE) for one in tenants] == tenants
    assert shadowed.other.delay("x").get(timeout=PATIENCE) == "x"
    assert [call.partition for call in seen(shadowed, 1)] == ["somebody"]
    assert read_folder(shadowed.folder, "shadowed.other") == []


def test_a_countdown_is_no_wait(shadowed):
    """A call waits from the moment it could start; each retry is a call of its own."""
    result = shadowed.work.apply_async(("a",), {"retries": 1}, countdown=1)
    assert result.get(timeout=PATIENCE) == "a"
    first, second = seen(shadowed, 2)
    assert first.started - first.sent < 1
    assert second.sent > first.ended + 0.4
    assert second.started - second.sent < 1


def recorded(*calls):
    """Calls of partition, arrival and run time; each started as it came."""
    return [Call(partition, at, at, at + seconds) for partition, at, seconds in calls]


def test_a_replay_is_exact():
    """In the order of arrival, and in turns; a slot that is free serves at once."""
    calls = recorded(("a", 100, 1), ("a", 100, 1), ("a", 100, 1), ("b", 100.5, 1), ("c", 110, 1))
    assert replay(Fifo(), calls, slots=1) == [0, 1, 2, 2.5, 0]
    assert replay(Fair(), calls, slots=1) == [0, 2, 3, 0.5, 0]
    assert replay(Fifo(), calls, slots=4) == [0, 0, 0, 0, 0]
    assert replay(Fifo(), [], slots=1) == []


def test_a_report_without_calls():
    """It says so."""
    assert report([]) == "nothing was recorded"


def test_a_report_of_many_partitions():
    """Those that took most time are shown, the others are counted."""
    calls = recorded(*((f"p{n}", 0, 1 + n) for n in range(30)))
    said = report(calls)
    assert "30 calls in 30.0 s, 30 at once" in said
    assert "and 10 more" in said
    assert "'p29' took 6 % of the worker time; in turns, 0 of 30 partitions would wait less" in said


def test_lines_that_are_broken_are_passed_over(tmp_path):
    """A process that is killed may leave half a line."""
    whole = {"task": "t", "id": "i", "partition": "p", "sent": 1, "started": 2, "ended": 3}
    lines = [json.dumps(whole), json.dumps(whole)[:40], "7", json.dumps({"task": "t"})]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert read_folder(tmp_path) == [Call("p", 1.0, 2.0, 3.0)]


def test_a_full_recorder_stops(tmp_path):
    """At the bound it was given, and quietly."""
    app = Celery("full", broker="memory://", set_as_current=False)
    recorder = watch(app, tmp_path, {"full.work": lambda tenant: tenant}, most=2)

    @app.task(name="full.work", bind=True)
    def work(self, tenant):
        """Do nothing."""

    try:
        for number in range(4):
            work.push_request(id=str(number), vtrr_shadow=["p", 1.0])
            signals.task_prerun.send(sender=work, task_id=str(number), task=work)
            signals.task_postrun.send(sender=work, task_id=str(number), task=work)
            work.pop_request()
    finally:
        recorder.stop()
        app.close()
    assert len(read_folder(tmp_path)) == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"app": "app"}, "app must be a Celery app, not 'app'"),
        ({"folder": ""}, "folder must be a path, not ''"),
        ({"tasks": {}}, "tasks must be a mapping of task names to functions, not {}"),
        ({"tasks": {"t": "p"}}, r"tasks\['t'\] must be a function of the task's arguments"),
        ({"tasks": {1: len}}, "tasks must be a string, not 1"),
        ({"most": 0}, "most must be from 1 to 1000000000, not 0"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, wrong, message):
    """Nothing is connected then."""
    given = {"app": Celery(set_as_current=False), "folder": tmp_path, "tasks": {"t": len}} | wrong
    before = len(signals.task_prerun.receivers)
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        watch(**given)
    assert len(signals.task_prerun.receivers) == before


@pytest.mark.parametrize("arguments", [["nowhere"], [".", "--slots", "0"]])
def test_a_wrong_command_says_so(arguments, capsys):
    """With an exit code."""
    with pytest.raises(SystemExit):
        main(arguments)
    assert "error: " in capsys.readouterr().err
