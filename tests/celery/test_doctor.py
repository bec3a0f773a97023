"""The doctor names each wrong setting of an app and of its workers, and nothing on right ones."""

import os
import socket
import time
import warnings
from signal import SIGSTOP

import pytest
from celery import Celery

from tests.celery.station import CELERY, Station
from tests.servers import Server
from tests.waiting import eventually
from vtrr_queue import VTRRQueue

HEALTHY = ("--appendonly", "yes", "--appendfsync", "everysec")
SOUND = {"heartbeat": True, "lease_seconds": 30}
ONE = ["--prefetch-multiplier", "1"]


@pytest.fixture(scope="module")
def servers():
    """State and broker."""
    with Server("valkey", *HEALTHY) as state, Server() as broker:
        yield state, broker


def codes(vtrr):
    found = vtrr.inspector.doctor()
    assert all(each.message and each.cost and each.fix for each in found)
    return {each.code: each.severity for each in found}


@pytest.fixture
def make_queue(servers):
    """Make a queue with a task, and forget its workers."""
    state, broker = servers
    opened = []

    def make(*, conf=None, broker_url="", task=None, **options):
        app = Celery("sick", broker=broker_url or broker.url())
        app.conf.update(conf or {})
        client = state.client()
        vtrr = VTRRQueue(client, app, name="sick", **{**SOUND, **options})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            vtrr.task(**(task or {}))(work)
        opened.append((app, client, vtrr))
        return vtrr

    yield make
    for app, client, vtrr in opened:
        vtrr.engine.client.close()
        client.close()
        app.close()


def work(self):
    """Do nothing."""


def test_a_queue_without_a_worker(make_queue):
    assert codes(make_queue()) == {"no-worker": "warning"}


APPS = [
    ({"conf": {"task_always_eager": True}}, {"eager": "warning"}),
    ({"heartbeat": False}, {"no-limit": "warning"}),
    ({"heartbeat": False, "task": {"time_limit": 20}}, {}),
    ({"heartbeat": False, "conf": {"task_time_limit": 40}}, {"limit-order": "error"}),
    ({"max_runtime": 50, "conf": {"task_time_limit": 60}}, {"limit-order": "error"}),
    ({"conf": {"task_time_limit": 60}}, {}),
    ({"task": {"soft_time_limit": 20, "time_limit": 10}}, {"limit-order": "error"}),
]


@pytest.mark.parametrize(("settings", "expected"), APPS, ids=lambda each: str(each)[:50])
def test_settings_of_the_app(make_queue, settings, expected):
    assert codes(make_queue(**settings)) == {**expected, "no-worker": "warning"}


@pytest.mark.parametrize(("limit", "given", "found"), [(4000, {}, True), (3000, {}, False),
                         (4000, {"visibility_timeout": 5000}, False)])  # fmt: skip
def test_plain_tasks_that_outlast_the_visibility_timeout(make_queue, limit, given, found):
    """Those that are acked late; the items of the queue don't depend on it."""
    vtrr = make_queue(conf={"broker_transport_options": given})
    vtrr.app.task(name="plain.late", acks_late=True, time_limit=limit, shared=False)(work)
    assert ("visibility-timeout" in codes(vtrr)) is found


def check_unreachable(vtrr):
    """It takes seconds and raises nothing."""
    began = time.monotonic()
    assert codes(vtrr) == {"broker-unreachable": "error"}
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("fault", ["closed", "silent"])
def test_a_broker_that_does_not_answer(make_queue, fault):
    with Server() as broker:
        url = broker.url()
        if fault == "closed":
            broker.stop()
        else:
            os.kill(broker.pid, SIGSTOP)
        check_unreachable(make_queue(broker_url=url))


def test_a_broker_of_another_kind_that_does_not_answer(make_queue):
    """Its port takes connections, and that is all."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        check_unreachable(make_queue(broker_url=f"pyamqp://127.0.0.1:{silent.getsockname()[1]}//"))


def test_a_broker_that_kombu_does_not_know(make_queue):
    check_unreachable(make_queue(broker_url="carrier-pigeon://loft"))


WORKERS = [
    ("prefork", "direct", [], {}),
    ("prefork", "trigger", ONE, {}),
    ("prefork", "trigger", [], {"prefetch": "warning"}),
    ("prefork", "trigger", ["--prefetch-multiplier", "0"], {"prefetch": "warning"}),
    ("threads", "direct", [],
     {"pool-ignores-limits": "warning", "pool-cannot-stop": "warning"}),
    ("solo", "direct", [], {"pool-ignores-limits": "warning", "pool-cannot-stop": "warning"}),
    ("gevent", "direct", [], {}),
]  # fmt: skip


@pytest.mark.parametrize(("pool", "dispatch", "args", "expected"), WORKERS)
def test_settings_of_a_worker(tmp_path, pool, dispatch, args, expected):
    """A sound one has no findings but that of the test's own server."""
    options = {**SOUND, "on_lease_lost": "terminate"}
    with Station(tmp_path, dispatch, pool=pool, **options) as station:
        station.app.app.conf.task_time_limit = 600
        station.start_worker(queues=["fates"], pool=pool, concurrency=2, args=args)
        found = {**expected, "no-aof": "warning"}
        eventually(lambda: codes(station.vtrr) == found, 10, f"{found}")  # gevent answers late


LIMITS = [
    ("prefork", {"time_limit": 20}, ["--time-limit", "900"], {}),  # the task's own counts
    ("prefork", {}, ["--time-limit", "20"], {}),
    ("prefork", {}, ["--time-limit", "900"], {"limit-order": "error"}),
    ("prefork", {}, ["--time-limit", "5", "--soft-time-limit", "9"], {"limit-order": "error"}),
    ("prefork", {}, [], {"no-limit": "warning"}),
    ("gevent", {"time_limit": 20}, [], {}),
    ("gevent", {"soft_time_limit": 10, "time_limit": 20}, [], {"pool-ignores-limits": "warning"}),
]  # fmt: skip


@pytest.mark.parametrize(("pool", "task", "args", "expected"), LIMITS)
def test_limits_of_a_worker_without_heartbeat(tmp_path, pool, task, args, expected):
    """Those that an item really gets count: its task's, else its worker's."""
    with Station(tmp_path, "direct", pool=pool, lease_seconds=30.0) as station:
        act = station.app.app.tasks[station.vtrr.task_name]
        for limit, seconds in task.items():
            setattr(act, limit, seconds)
        station.start_worker(queues=["fates"], pool=pool, concurrency=2, args=args)
        found = {**expected, "no-aof": "warning"}
        eventually(lambda: codes(station.vtrr) == found, 10, f"{found}")


@pytest.mark.skipif(CELERY < (5, 6), reason="an option of Celery 5.6")
def test_a_worker_that_does_not_prefetch_parks_nothing(tmp_path):
    """Whatever its prefetch count says."""
    with Station(tmp_path, "trigger", **SOUND) as station:
        args = ["--disable-prefetch"]
        station.start_worker(queues=["fates"], pool="prefork", concurrency=2, args=args)
        eventually(lambda: codes(station.vtrr) == {"no-aof": "warning"}, 10, "no other finding")
