"""Real Beat processes: an item of a dead worker comes back, and other schedulers know the entry."""

import importlib
import json
import os
import sqlite3
import subprocess
import sys

import pytest

from tests.servers import Server
from tests.waiting import eventually
from tests.workers import APPS, Worker
from vtrr_queue.inspector import Inspector

pytestmark = pytest.mark.slow


class Beat(Worker):
    """A `celery beat` process.

    Args:
        module: Module of the app.
        log_path: File that gets everything it writes.
        args: More arguments for `celery beat`.
        options: As for a worker.
    """

    def __init__(self, module, *, log_path, args=(), **options):
        super().__init__(module, log_path=log_path, **options)
        schedule = log_path.with_suffix(".schedule")
        self.command = [
            *(sys.executable, "-m", "celery", "-A", module, "beat", "-l", "INFO"),
            *("--pidfile", "", "-s", str(schedule), *args),
        ]

    def wait_ready(self, timeout=30.0):
        """Wait until it ticks."""
        self.wait_for_log("beat: Starting...", timeout)


@pytest.fixture
def private():
    """A server of this test alone."""
    with Server() as server:
        yield server


@pytest.fixture
def beating(private, monkeypatch):
    """The module of the app, as a producer."""
    monkeypatch.syspath_prepend(APPS)
    monkeypatch.setenv("BEATING_URL", private.url().rsplit("/", 1)[0])
    module = importlib.import_module("beating")
    yield module
    module.vtrr.engine.client.close()
    module.app.close()
    del sys.modules["beating"]


def runs(private):
    """Timeouts of every run so far."""
    with private.client(2) as client:
        return [int(value) for value in client.lrange("runs", 0, -1)]


def test_beat_recovers_the_item_of_a_dead_worker(private, beating, tmp_path):
    """With nobody else to do it: no vtrr worker lives, and nothing is enqueued."""
    numbers = iter(range(9))

    def worker(queues, **env):
        log_path = tmp_path / f"worker{next(numbers)}.log"
        return Worker("beating", queues=queues, concurrency=1, log_path=log_path, env=env)

    inspector = Inspector(beating.vtrr.engine)
    with worker(["beating"]) as dead:
        beating.hang.queue("acme", [{"id": "i"}])
        eventually(lambda: runs(private) == [0], 15, "a first run")
        dead.kill_group()
    assert inspector.depth().running == 1

    with worker(["reclaims"], BEATING_PLAIN="1") as plain, Beat(
        "beating", log_path=tmp_path / "beat.log"
    ) as beat:  # fmt: skip
        eventually(lambda: inspector.depth().running == 0, 15, "the reclaim")
        depth = inspector.depth()
        assert depth.waiting == 1
        # One from Beat's reclaim; the dead worker's keeper may have entered others before.
        assert 1 <= depth.triggers <= beating.vtrr.max_concurrency
        assert "Scheduler: Sending due task vtrr_queue.reclaim.beating" in beat.log()
        plain.wait_for_log("succeeded in")
        assert "Task vtrr_queue.reclaim.beating[" in plain.log()
        assert "beating.hang" not in plain.log().split(" ready.")[1]

    assert runs(private) == [0]
    with worker(["beating"]):
        eventually(lambda: runs(private) == [0, 1], 15, "a second run")
        eventually(lambda: inspector.depth().running == 0, 10, "its end")
    assert inspector.audit() == []


def messages(private, queue):
    """Headers of the messages in a queue of the broker."""
    with private.client(0) as client:
        return [json.loads(text)["headers"] for text in client.lrange(queue, 0, -1)]


DJANGO_SETTINGS = """
SECRET_KEY = "for a test"
INSTALLED_APPS = ["django_celery_beat"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": {database!r}}}}}
MIGRATION_MODULES = {{"django_celery_beat": None}}
USE_TZ = True
"""

DJANGO_APP = """
import redis
from celery import Celery
from vtrr_queue import VTRRQueue

app = Celery("stored", broker={url!r})
vtrr = VTRRQueue(redis.Redis.from_url({url!r}, db=1), app, name="stored",
                 reclaim_interval=1, reclaim_queue="reclaims")
other = VTRRQueue(redis.Redis.from_url({url!r}, db=1), app, name="lost", reclaim_interval=90)
app.conf.beat_schedule  # loads the configuration, so that the next line loses `lost`
app.conf.beat_schedule = {{"their-own": {{"task": "their.own", "schedule": 3600.0}},
                          **vtrr.reclaim_beat_schedule()}}
"""

STORED = """
select task.name, task.task, every, period, queue, expire_seconds, enabled
from django_celery_beat_periodictask task
join django_celery_beat_intervalschedule interval on interval.id = task.interval_id
where task.name like 'vtrr%' order by task.name
"""


def test_a_scheduler_that_keeps_the_schedule_in_a_database_takes_the_entry(private, tmp_path):
    """django-celery-beat; also an entry that the configuration had lost."""
    pytest.importorskip("django_celery_beat")
    database = tmp_path / "schedule.sqlite3"
    (tmp_path / "stored_settings.py").write_text(DJANGO_SETTINGS.format(database=str(database)))
    (tmp_path / "stored.py").write_text(DJANGO_APP.format(url=private.url()))
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "stored_settings", "PYTHONPATH": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--run-syncdb", "-v", "0"],
        cwd=tmp_path, env=env, check=True, timeout=40,
    )  # fmt: skip
    scheduler = ["--scheduler", "django_celery_beat.schedulers:DatabaseScheduler"]
    with Beat("stored", log_path=tmp_path / "beat.log", args=scheduler, env=env, cwd=tmp_path):
        sent = eventually(lambda: messages(private, "reclaims")[1:], 25, "two reclaims")
    assert {(headers["task"], bool(headers["expires"])) for headers in sent} == {
        ("vtrr_queue.reclaim.stored", True)
    }
    with sqlite3.connect(database) as stored:
        rows = stored.execute(STORED).fetchall()
    stored.close()
    assert rows == [
        ("vtrr_queue.reclaim.lost",) * 2 + (90, "seconds", None, 90, 1),
        ("vtrr_queue.reclaim.stored",) * 2 + (1, "seconds", "reclaims", 1, 1),
    ]


REDBEAT_APP = """
import redis
from celery import Celery
from vtrr_queue import VTRRQueue

app = Celery("hashed", broker={url!r})
vtrr = VTRRQueue(redis.Redis.from_url({url!r}, db=1), app, name="hashed",
                 reclaim_interval=1, reclaim_queue="reclaims")
app.config_from_object({{"redbeat_redis_url": {url!r}, "beat_max_loop_interval": 1}})
"""


def test_a_scheduler_that_keeps_the_schedule_in_redis_takes_the_entry(private, tmp_path):
    """RedBeat."""
    pytest.importorskip("redbeat")
    (tmp_path / "hashed.py").write_text(REDBEAT_APP.format(url=private.url()))
    scheduler = ["--scheduler", "redbeat.RedBeatScheduler"]
    with Beat("hashed", log_path=tmp_path / "beat.log", args=scheduler, cwd=tmp_path):
        sent = eventually(lambda: messages(private, "reclaims")[1:], 25, "two reclaims")
    assert {headers["task"] for headers in sent} == {"vtrr_queue.reclaim.hashed"}
    with private.client(0) as client:
        stored = json.loads(client.hget("redbeat:vtrr_queue.reclaim.hashed", "definition"))
    assert stored["options"]["queue"] == "reclaims"
