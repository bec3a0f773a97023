"""The drain benchmark measures what it says, and tells who is missing."""

import pytest

from benchmarks.contenders import OURS, PEERS, POOLS, SOLO, Contender, environment
from benchmarks.contenders.environment import NotInstalled, programs
from benchmarks.contenders.group import DrainFailed, Group, Setting
from benchmarks.drain import drains
from benchmarks.plan import Plan


@pytest.mark.parametrize("contender", OURS, ids=lambda contender: contender.name)
def test_every_item_is_done_once(contender, server, tmp_path):
    """All items wait before the worker starts, and each appends its byte once."""
    with Group(contender, Setting(server.url(0), tmp_path, SOLO, 0.0, 60)) as group:
        group.call("fill", 60)
        assert group.done() == 0
        group.start()
        assert group.rate() > 0
        assert group.done() == 60


def test_workers_that_end_are_a_failure(server, tmp_path):
    """A contender whose workers end gives their last words, not a rate."""
    broken = Contender("broken", "celery_plain", {SOLO: "python -c raise(SystemExit('oh'))"})
    with Group(broken, Setting(server.url(0), tmp_path, SOLO, 0.0, 20)) as group:
        group.start()
        with pytest.raises(DrainFailed, match="a worker ended after 0 of 2"):
            group.rate()


def test_a_peer_that_cannot_be_installed_is_named(monkeypatch, redis_client, server, tmp_path):
    """The table says which peer is missing and why; the others are measured."""
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    monkeypatch.setattr(environment, "FOLDER", in_the_way)
    with pytest.raises(NotInstalled):
        programs("huey")
    monkeypatch.setattr("benchmarks.drain.OURS", ())
    plan = Plan(
        redis_client, server.url(0)[:-2], rounds=1, peers=("huey",), pools=(SOLO,), folder=tmp_path
    )
    (table,) = drains(plan)
    assert "huey, at most once: not installed" in table.note


def test_every_pool_has_a_way_for_every_contender():
    """What a contender does not offer is a pool left out on purpose: RQ has no threads."""
    without = {c.name for c in (*OURS, *PEERS) for pool in POOLS if pool not in c.commands}
    assert without == {"RQ, a fork an item", "RQ, SimpleWorker"}
