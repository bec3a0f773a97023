"""Commands that look, run as processes against a queue with a worker, in text and JSON."""

import re

import pytest

from tests.waiting import eventually
from vtrr_queue import Rate

pytestmark = pytest.mark.slow


def test_status(flood, shell):
    """Of all queues of the app, or of the chosen one."""
    ran = shell.celery("status")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("files: 31 waiting, 1 delayed, 2 running, 0 dead; 3 partitions")
    assert "mails: 0 waiting" in ran.out
    (files,) = shell.files("status", "--json").json["queues"]
    shown = ("name", "waiting", "delayed", "running", "dead", "stored")
    assert {name: files[name] for name in shown} == {
        "name": "files", "waiting": 31, "delayed": 1, "running": 2, "dead": 0, "stored": True,
    }  # fmt: skip
    assert shell.alone("status").out.splitlines()[0] == ran.out.splitlines()[0]
    assert "nothing is stored" not in shell.files("status").out
    ran = shell.alone("status", name="fils")
    assert (ran.code, ran.out.splitlines()[1:]) == (0, ["  nothing is stored under this name"])
    (fils,) = shell.alone("status", "--json", name="fils").json["queues"]
    assert fils["stored"] is False


def test_partitions(flood, shell):
    ran = shell.files("partitions")
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[0] == [
        "partition", "state", "waiting", "running", "oldest", "used", "due", "share", "cap",
        "rate/s",
    ]  # fmt: skip
    assert [line[:4] for line in lines[1:]] == [
        ["large", "ready", "30", "0"], ["small", "ready", "1", "0"],
        ["held-up", "running", "0", "2"],
    ]  # fmt: skip
    found = shell.alone("--json", "partitions", "--sort", "running", "--limit", "1").json
    (row,) = found["rows"]
    assert (row["name"], row["running"], row["due"]) == ("held-up", 2, 1 / 3)
    assert 0 <= row["used"] <= 1
    assert found["partitions"] == 3
    assert [row["name"] for row in shell.files("partitions", "--find", "ALL", "--json")
            .json["rows"]] == ["small"]  # fmt: skip


def test_partitions_with_a_long_name(flood, shell):
    """It moves its own row only, and is cut where it is very long; JSON has it whole."""
    name = "n" * 60_000
    flood.app.act.queue(name, [{}] * 40)
    first, *others = shell.alone("partitions").out.splitlines()[1:]
    assert (first.startswith("nnn"), len(first) < 300) == (True, True)
    assert "\N{HORIZONTAL ELLIPSIS}" in first
    assert max(map(len, others)) < 130
    assert shell.alone("partitions", "--json").json["rows"][0]["name"] == name


def test_peek(flood, shell):
    """The next items of a partition; without one, the next of each partition in turn."""
    ran = shell.files("peek", "large", "--limit", "2", "--payload")
    assert [line.split()[:3] for line in ran.out.splitlines()[1:]] == [
        ["large0", "large", "steered.act"], ["large1", "large", "steered.act"],
    ]  # fmt: skip
    items = shell.alone("peek", "--json").json["items"]
    assert {(each["item_id"], each["weight"]) for each in items} == {("large0", 1), ("small0", 2)}
    assert "arguments" not in items[0]


@pytest.mark.parametrize("words", [("nosuch",), ("held-up",), ("",)], ids=repr)
def test_peek_where_nothing_waits(busy, shell, words):
    """An empty list, as of a partition that was drained."""
    ran = shell.alone("peek", *words)
    assert (ran.code, len(ran.out.splitlines()), ran.err) == (0, 1, "")
    assert shell.files("peek", *words, "--json").json == {"queue": "files", "items": []}


def test_names_stand_on_the_left(busy, shell):
    """Also where each is a number."""
    busy.app.act.queue("7", [{"id": "1"}, {"id": "3f2a-12"}])
    lines = shell.alone("peek", "7").out.splitlines()
    assert [line[:18].rstrip() for line in lines] == [
        "item     partition", "1        7", "3f2a-12  7",
    ]  # fmt: skip


def test_leases(flood, shell):
    ran = shell.files("leases")
    assert [line.split()[:2] for line in ran.out.splitlines()[1:]] == [
        ["run0", "held-up"], ["run1", "held-up"],
    ]  # fmt: skip
    leases = shell.alone("leases", "--json").json["leases"]
    assert [each["item_id"] for each in leases] == ["run0", "run1"]
    assert "token" not in leases[0]


def test_item(flood, shell):
    """Wherever it is; its arguments when they are asked for."""
    ran = shell.files("item", "small0", "--payload")
    assert "place: waiting\n" in ran.out
    assert re.search(r"^since: [-0-9]{10} [:0-9]{8} UTC$", ran.out, re.MULTILINE)
    assert "arguments: 'end'\n" in ran.out
    assert shell.alone("item", "run0", "--json").json["place"] == "running"
    later = shell.alone("item", "later", "--json").json
    assert (later["place"], later["partition"]) == ("delayed", "small")


def test_top_prints_lines_for_programs(flood, shell):
    ran = shell.files("top", "--json", "--interval", "0.1", "--count", "3")
    assert len(ran.out.splitlines()) == 3
    ran = shell.alone("top", "--count", "1")
    assert "large" in ran.out
    assert "files: 31 waiting" in ran.out


def test_audit_and_doctor(flood, shell):
    """The exit code tells whether something was found."""
    assert shell.files("audit").out == "files: no violation\n"
    assert shell.alone("audit", "--json").json == {"queues": [{"name": "files", "violations": []}]}
    ran = shell.files("doctor")
    assert (ran.code, "files: warning no-aof" in ran.out) == (4, True)
    found = shell.alone("doctor", "--json")
    (queue,) = found.json["queues"]
    assert (found.code, queue["findings"][0]["code"]) == (4, "no-aof")
    flood.redis.zadd("vtrr:files:queue", {"nobody": 0})
    ran = shell.alone("audit")
    assert (ran.code, "I8: 'nobody'" in ran.out) == (4, True)
    flood.redis.zrem("vtrr:files:queue", "nobody")


def test_simulate(shell):
    """It needs no queue."""
    text = shell.celery("simulate", "--seconds", "60", "--tenants", "5")
    assert "first in, first out\n" in text.out
    found = shell.run("vtrr_queue.cli", "simulate", "--seconds", "60", "--json").json
    assert found["fair"]["jain"] > found["fifo"]["jain"]


@pytest.fixture
def situations(flood):
    """Partitions and items, each held up by one thing."""
    vtrr, act = flood.app.files, flood.app.act
    vtrr.set_partition("held-up", cap=2)
    act.queue("held-up", [{"id": "capped0"}])
    for name in ("paused", "held", "limited", "broken"):
        act.queue(name, [{"id": f"{name}{n}", "args": ["fail" if name == "broken" else "end"]}
                         for n in range(2)])  # fmt: skip
    vtrr.pause("paused")
    vtrr.hold("held", 3600)
    vtrr.set_partition("limited", rate=Rate("1/h"))
    lease = next(each for each in vtrr.engine.lease(count=99).items
                 if each.partition == "limited")  # fmt: skip
    for each in vtrr.inspector.leases():
        if each.holder == "" and each.item_id != lease.item_id:
            dead = each.item_id == "broken0"
            settle = vtrr.engine.bury if dead else vtrr.engine.release
            settle(each.item_id, each.token, *(["it broke"] if dead else []))
    vtrr.engine.ack(lease.item_id, lease.token)
    vtrr.cancel("run1")
    return flood


def test_why(situations, shell):
    """Ten situations, each with the reason that decides first; the last two with what is next."""
    reasons = {
        name: [reason["kind"] for reason in shell.alone("why", name, "--json").json["reasons"]]
        for name in ("held-up", "paused", "held", "limited", "run0", "run1", "later", "broken0",
                     "small")
    }  # fmt: skip
    assert reasons == {
        "held-up": ["capped"], "paused": ["paused"], "held": ["held"], "limited": ["limited"],
        "run0": ["running"], "run1": ["running", "cancelled"], "later": ["delayed"],
        "broken0": ["dead"], "small": ["ahead"],
    }  # fmt: skip
    assert shell.files("why", "nobody").code == 3
    situations.app.files.pause()
    ran = shell.files("why", "small0")
    assert [line.partition(":")[0] for line in ran.out.splitlines()] == [
        "queue paused", "ahead", "behind",
    ]  # fmt: skip


def test_why_of_a_partition_of_which_nothing_waits(situations, shell):
    """Its delayed items are told, and what is set for it."""
    app = situations.app
    app.act.apply_async((), partition_key="tomorrow", countdown=86_400)
    app.files.pause("empty")
    kinds = {
        name: [reason["kind"] for reason in shell.alone("why", name, "--json").json["reasons"]]
        for name in ("tomorrow", "empty")
    }
    assert kinds == {"tomorrow": ["delayed"], "empty": ["idle", "paused"]}


def test_why_without_a_worker(stage, shell):
    """The queue `lonely` has no worker."""
    stage.app.mails.engine.client.read(("PING",))
    engine = type(stage.app.files.engine)(stage.state.client(), "lonely")
    engine.enqueue("a", [])
    stage.redis.zadd("vtrr:lonely:queue", {"a": 0})
    stage.redis.rpush("vtrr:lonely:backlog:a", "x")
    stage.redis.hset("vtrr:lonely:task", "x", "    1 a")
    stage.redis.set("vtrr:lonely:schema", "5")
    ran = shell.alone("why", "a", name="lonely")
    assert ran.out.startswith("no worker: no worker of this queue is running\n")
    eventually(lambda: engine.purge("a") == 1 or not engine.client.close())
