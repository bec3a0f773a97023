"""Commands that change something, run as processes against a queue with a worker."""

import math

import pytest

from tests.waiting import eventually

pytestmark = pytest.mark.slow


def partition(stage, name):
    return stage.app.files.get_partition(name)


def test_pause_and_resume(flood, shell):
    """Of a partition and of the whole queue, with the app and without it."""
    assert shell.files("pause", "small").out == "partition small is paused\n"
    assert partition(flood, "small").paused
    found = shell.alone("resume", "small", "--json").json
    assert found == {"queue": "files", "partition": "small", "paused": False}
    assert not partition(flood, "small").paused
    assert shell.alone("pause", "--all").out == "queue files is paused\n"
    assert flood.app.files.engine.policy("").paused
    assert shell.files("resume", "--all", "--json").json["paused"] is False
    assert not flood.app.files.engine.policy("").paused


def test_what_is_resumed_without_the_app_runs(stage, shell):
    """No trigger can be sent, but a worker hears of it."""
    stage.clear()
    stage.app.files.pause("a")
    stage.app.act.queue("a", [{}])
    assert shell.alone("resume", "a").code == 0
    stage.wait_rest("files")
    assert stage.traces.count() == 1


def test_hold(flood, shell):
    assert shell.files("hold", "small", "--for", "600").out == (
        "partition small is held for 600 s\n"
    )
    assert partition(flood, "small").held_until_ms
    assert shell.alone("hold", "small", "--for", "0", "--json").json["hold_seconds"] == 0
    assert partition(flood, "small").held_until_ms is None
    assert shell.alone("hold", "--all", "--for", "0").out == "queue files is no longer held\n"


def test_set(flood, shell):
    """What is given changes, the rest stays; nothing given shows what is set."""
    ran = shell.files("set", "small", "--share", "2.5", "--cap", "none", "--rate", "100/m",
                      "--burst", "3", "--max-backlog", "50")  # fmt: skip
    assert ran.out.splitlines() == [
        "share: 2.5", "cap: none", "rate: 1.66667 items a second, burst 3", "max_backlog: 50",
        "paused: no", "held: no",
    ]  # fmt: skip
    assert partition(flood, "small").cap == math.inf
    found = shell.alone("set", "small", "--share", "default", "--json").json
    assert (found["share"], found["max_backlog"], found["rate"]["burst"]) == (None, 50, 3)
    assert shell.alone("set", "large").out.startswith("share: default\n")


def test_cancel(flood, shell):
    ran = shell.files("cancel", "large3", "run0", "nothing", "--yes")
    assert (ran.code, ran.out) == (0, "cancelled: 1 that waited, 1 that run\n")
    assert ran.err == "item nothing neither waits nor runs\n"
    found = shell.alone("cancel", "--partition", "small", "--yes", "--json").json
    assert found == {
        "queue": "files", "waiting": ["later"], "running": [], "backlog": 1, "missing": [],
    }  # fmt: skip
    assert flood.app.files.inspector.depth().waiting == 29
    assert shell.alone("cancel", "nothing", "--yes").code == 3
    assert shell.alone("cancel", "--partition", "small", "--yes").code == 3


def test_purge(flood, shell):
    assert shell.files("purge", "large", "--yes").out == "30 items purged\n"
    found = shell.alone("purge", "small", "--yes", "--json").json
    assert found == {"queue": "files", "partition": "small", "purged": 2}
    assert shell.alone("purge", "small", "--yes").code == 3
    assert flood.app.files.inspector.depth().waiting == 0


def test_a_terminal_is_asked(flood, shell):
    """No keeps everything and has a code of its own."""
    ran = shell.files("purge", "large", answer="n")
    assert (ran.code, ran.out) == (5, "")
    assert "Forget everything of partition 'large' that waits? [y/N]" in ran.err
    assert shell.files("purge", "large", answer="y").out == "30 items purged\n"


@pytest.fixture
def letters(stage):
    """Dead letters of two partitions."""
    stage.clear()
    for name in ("broken", "torn"):
        stage.app.act.queue(name, [{"args": ["fail"], "id": f"{name}{n}"} for n in range(2)])
    eventually(lambda: len(stage.app.files.dead) == 4, 20, "dead letters")
    yield stage
    stage.clear()


def test_dead_letters(letters, shell):
    """Listed, shown with their traceback, run again and forgotten."""
    ran = shell.files("dead")
    assert {line.split()[0] for line in ran.out.splitlines()[1:]} == {
        "broken0", "broken1", "torn0", "torn1",
    }  # fmt: skip
    assert "ValueError" in ran.out
    found = shell.alone("dead", "--partition", "torn", "--json").json
    assert (found["count"], len(found["letters"])) == (4, 2)
    ran = shell.files("dead", "torn1", "--payload")
    assert "exception: ValueError('no torn')\n" in ran.out
    assert "arguments: 'fail'\n" in ran.out
    assert "  Traceback (most recent call last):\n" in ran.out
    assert shell.alone("dead", "torn1", "--json").json["reason"]
    runs = letters.traces.count()
    assert shell.files("requeue", "torn0", "--yes").out == "1 dead letter requeued\n"
    letters.wait_runs(runs + 1)
    found = shell.alone("requeue", "--partition", "broken", "--yes", "--json").json
    assert found == {"queue": "files", "requeued": 2}
    letters.wait_runs(runs + 3)
    eventually(lambda: len(letters.app.files.dead) == 4, 20, "dead letters again")
    assert shell.files("drop", "torn0", "--yes").out == "1 dead letter dropped\n"
    assert shell.alone("drop", "--all", "--yes", "--json").json == {"queue": "files", "dropped": 3}
    assert shell.alone("requeue", "--all", "--yes").code == 3


def test_reclaim(flood, shell):
    """An expired lease goes back at once, and is counted."""
    assert shell.files("reclaim").out == "0 expired leases\n"
    assert shell.alone("reclaim", "--json").json == {"queue": "files", "reclaimed": 0}
