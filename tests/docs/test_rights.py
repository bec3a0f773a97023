"""A user with the rights of docs/reference/scripts.md can do all that a queue does."""

import asyncio
import importlib.util
import os
import re
import sys
from types import SimpleNamespace

import pytest

from tests.docs.blocks import ROOT
from tests.servers import Server, wanted_kinds
from tests.waiting import eventually
from tests.workers import Worker
from tools.scripts_page import BESIDE
from vtrr_queue import Refused

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]
PAGE = (ROOT / "docs" / "reference" / "scripts.md").read_text()
RULE = re.search(r"^ACL SETUSER (files .*)$", PAGE, re.MULTILINE)[1]
SELDOM = {"client|setname", "unsubscribe", "wait"}
"""Needed by a client with a name, the end of a subscription, and replicas."""
UNKNOWN_TO_REDIS_7_0 = {"+waitaof", "+client|setinfo"}

APP = """
import os
import redis
from celery import Celery
from celery.exceptions import Reject
from vtrr_queue import VTRRQueue

app = Celery("rights", broker=os.environ["BROKER"])
app.conf.worker_prefetch_multiplier = 1
vtrr = VTRRQueue(
    redis.Redis.from_url(os.environ["STATE"]), app, name="files", dispatch=os.environ["DISPATCH"],
    heartbeat=0.2, lease_seconds=1, max_timeouts=1, on_failure="dead", charge="runtime",
    default_cap=5, default_rate=1000, trigger_timeout=1,
)


@vtrr.task(max_retries=2)
def work(self, what="return"):
    assert self.request.vtrr_lease_held()
    assert not self.request.vtrr_cancelled()
    if what == "retry" and self.request.retries == 0:
        raise self.retry(countdown=0.2)
    if what == "raise":
        raise ValueError(what)
    if what == "exit":
        os._exit(1)
"""


def grant(server):
    """Give the user what the page says, less what this server does not know."""
    words = RULE.split()
    if server.kind == "redis":
        words = [word for word in words if word not in UNKNOWN_TO_REDIS_7_0]
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", *words)


@pytest.fixture(params=[(kind, way) for kind in wanted_kinds() for way in ("trigger", "direct")],
                ids="-".join)  # fmt: skip
def place(request, tmp_path, monkeypatch):
    """A broker, a server with that user, and the app as this process sees it."""
    kind, dispatch = request.param
    with Server(kind, "--appendonly", "yes") as state, Server() as broker:
        grant(state)
        url = f"redis://files:SECRET@{state.host}:{state.port}/1"
        env = {"STATE": url, "BROKER": broker.url(), "DISPATCH": dispatch}
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        path = tmp_path / "rights.py"
        path.write_text(APP)
        spec = importlib.util.spec_from_file_location("rights", path)
        app = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "rights", app)
        spec.loader.exec_module(app)
        worker = Worker("rights", log_path=tmp_path / "worker.log", cwd=tmp_path,
                        env={**os.environ, **env}, queues=["vtrr_queue"])  # fmt: skip
        yield SimpleNamespace(state=state, vtrr=app.vtrr, work=app.work, worker=worker)
        app.vtrr.engine.client.close()
        app.app.close()


def is_idle(vtrr):
    depth = vtrr.inspector.depth()
    return not depth.waiting + depth.delayed + depth.running


def look_after(vtrr, work):
    """What people do with a queue."""
    work.queue("held", [{"id": f"h{n}", "priority": n} for n in range(4)])
    vtrr.set_partition("held", share=2, cap=1, rate="1000/s", max_backlog=9)
    vtrr.pause("held")
    assert vtrr.get_partition("held").paused
    vtrr.cancel(["h0"])
    work.apply_async(["return"], partition_key="later", countdown=60)
    vtrr.cancel(partition="later")
    vtrr.purge("held")
    vtrr.hold("held", 0.1)
    vtrr.clear_partition("held")
    assert vtrr.inspector.audit() == []
    vtrr.inspector.partitions()
    vtrr.inspector.leases()
    vtrr.reclaim_and_dispatch()


def test_all_of_it_is_allowed(place):
    """Producers, workers and people are refused nothing, and nothing is granted in vain."""
    vtrr, work = place.vtrr, place.work
    look_after(vtrr, work)
    asyncio.run(work.aqueue("acme", [{}]))
    with place.worker:
        for what in ("return", "retry", "raise", "exit"):
            work.queue("acme", [{"id": what, "args": [what]}])
        if place.state.kind == "valkey":
            work.queue("bolt", [{}], durability="fsync")
        eventually(lambda: is_idle(vtrr) and len(vtrr.dead) == 2, 30, "the end of all items")
        assert "NOPERM" not in place.worker.log()
    assert {letter.item_id for letter in vtrr.dead.latest()} == {"raise", "exit"}
    vtrr.dead.requeue("raise")
    vtrr.dead.drop_all()
    vtrr.inspector.doctor()
    with place.state.client() as admin:
        refused = {entry["object"] for entry in admin.acl_log()}
        called = set(admin.info("commandstats"))
    assert refused <= {"config|get", "command|info", "_kombu.binding.celery"}
    if place.state.kind == "valkey":
        idle = {command for command in BESIDE if f"cmdstat_{command}" not in called}
        assert idle <= SELDOM


def test_other_keys_are_out_of_reach(place):
    """The user of one queue can't read or change another."""
    with place.state.client(1) as admin:
        admin.set("vtrr:other:schema", "5")
    with pytest.raises(Refused):
        place.vtrr.engine.client.read(("GET", "vtrr:other:schema"))
