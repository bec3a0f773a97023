"""Real workers start, run, die and say why they didn't."""

import os
import signal

import psutil
import pytest
from celery import Celery

from tests.servers import Server
from tests.waiting import eventually
from tests.workers import Worker

pytestmark = pytest.mark.compat


def runs(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def url():
    """One broker will do: its kind makes no difference to a worker's process."""
    with Server() as broker:
        yield broker.url()


@pytest.fixture
def app(url):
    with Celery("plain", broker=url, set_as_current=False) as app:
        yield app


def test_it_runs_tasks_and_stops_warmly(start_worker, app, url, tmp_path):
    worker = start_worker("plain", queues=["here"], env={"BROKER_URL": url})
    trace = tmp_path / "trace"
    app.send_task("plain.touch", [str(trace)], queue="here")
    eventually(trace.exists, what="the task's trace")
    assert worker.stop() == 0


def test_children_can_be_killed_and_come_back(start_worker, url):
    worker = start_worker("plain", concurrency=1, env={"BROKER_URL": url})
    (child,) = worker.children()
    os.kill(child, signal.SIGKILL)
    eventually(lambda: worker.children() not in ([], [child]), what="another child")


def test_killing_the_group_leaves_nobody(start_worker, url):
    worker = start_worker("plain", env={"BROKER_URL": url})
    pool = [psutil.Process(child) for child in worker.children()]
    worker.kill_group()
    assert not worker.is_running()
    eventually(lambda: not any(map(runs, pool)), what="the pool's end")


def test_a_worker_that_does_not_start_shows_its_log(tmp_path):
    worker = Worker("no_such_module", log_path=tmp_path / "log")
    with pytest.raises(AssertionError, match="no_such_module"), worker:
        pass
    assert not worker.is_running()


def test_a_failure_beside_a_worker_shows_its_log(url, tmp_path):
    worker = Worker("plain", pool="solo", env={"BROKER_URL": url}, log_path=tmp_path / "log")
    with pytest.raises(ZeroDivisionError) as failure, worker:
        _ = 1 / 0
    assert "ready." in "".join(failure.value.__notes__)
