"""The API of release 0.2 and of Celery's own calls, on a queue without workers."""

import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
from celery import Celery, current_app

import vtrr_queue
from tests.callers import define, lease_all, make_app, make_queue, snapshot
from tests.waiting import eventually
from vtrr_queue import Unavailable, VTRRQueue, VTRRTask
from vtrr_queue.errors import VTRRError
from vtrr_queue.payload import decode

TOKEN = "0" * 32
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture
def queue(redis_client):
    """A queue with its task, and an item waiting."""
    vtrr = make_queue(redis_client)
    vtrr.work = define(vtrr)
    vtrr.work.queue("earlier", [{"id": "e1", "args": [1]}])
    return vtrr


@pytest.fixture
def short(redis_client):
    """A queue whose leases end at once."""
    vtrr = make_queue(redis_client, lease_seconds=0.001)
    vtrr.work = define(vtrr)
    return vtrr


# --- release 0.2 -------------------------------------------------------------
def test_the_constructor_of_0_2_is_taken(redis_client):
    vtrr = VTRRQueue(
        redis_client, make_app(), name="files", celery_queue="vtrr_files", max_concurrency=8,
        lease_seconds=3900, reclaim_interval=60, reclaim_queue="celery",
    )  # fmt: skip
    assert (vtrr.name, vtrr.celery_queue, vtrr.max_concurrency) == ("files", "vtrr_files", 8)
    assert redis_client.dbsize() == 0


def test_defaults_are_those_of_0_2(redis_client):
    vtrr = VTRRQueue(redis_client, make_app(), name="files")
    assert (vtrr.celery_queue, vtrr.max_concurrency, vtrr.lease_seconds) == ("vtrr_queue", 4, 3900)
    assert (vtrr.reclaim_interval, vtrr.reclaim_queue) == (None, None)
    assert vtrr.reclaim_beat_schedule() == {}


def test_a_task_tells_where_its_items_stand(queue):
    """One waits already, in a partition of its own."""
    first, second = queue.work.queue("later", [{"args": [2]}, {"args": [3]}])
    assert queue.work.position("e1").ahead == 0
    assert [queue.work.position(each).behind for each in (first, second)] == [0, 1]
    assert queue.work.position("never") is None


def test_a_loop_of_ones_own_takes_and_finishes_items(queue):
    """`_dequeue` and `ack`, without any worker."""
    queue.work.queue("later", [{"args": (2,), "kwargs": {"b": 3}, "id": "i"}])
    name, args, kwargs, item_id, token, timeouts = queue._dequeue()
    assert (name, args, kwargs, timeouts) == (queue.work.name, [1], {}, 0)
    assert queue.ack(item_id, token) is True
    assert queue.ack(item_id, token) is False
    taken = queue._dequeue()
    assert isinstance(taken, tuple)
    assert taken[:4] == (queue.work.name, [2], {"b": 3}, "i")
    assert re.fullmatch("[0-9a-f]{32}", taken[4])
    assert queue._dequeue() is None
    assert queue.ack("i", TOKEN) is False
    assert queue.ack("i", taken[4]) is True
    assert queue._dequeue() is None


def test_a_payload_that_cannot_be_read_is_passed_over(queue, redis_client, caplog):
    """It becomes a dead letter and the next item is taken."""
    queue.work.queue("acme", [{"id": "broken"}, {"id": "good"}])
    record = redis_client.hget("vtrr:files:task", "broken")
    redis_client.hset("vtrr:files:task", "broken", record.replace(b"[[]", b"((("))
    found = [queue._dequeue()[3] for _ in range(2)]
    assert sorted(found) == ["e1", "good"]
    assert queue._dequeue() is None
    assert redis_client.hkeys("vtrr:files:dead") == [b"broken"]
    assert "item broken of queue 'files' is a dead letter" in caplog.text


def expire(vtrr, partition, count):
    """Enqueue items and let their leases end."""
    vtrr.work.queue(partition, [{} for _ in range(count)])
    leases = lease_all(vtrr)
    ends = max(lease.expires_at_ms for lease in leases)
    eventually(lambda: time.time() * 1000 > ends + 2, 5, "the leases end")
    return leases


@pytest.mark.parametrize("call", ["reclaim", "reclaim_and_dispatch"])
def test_reclaim_says_how_many_leases_had_expired(short, call):
    """They can be taken again and their timeouts count."""
    first = expire(short, "acme", 3)
    assert getattr(short, call)() == 3
    assert getattr(short, call)() == 0
    taken = short._dequeue()
    assert taken[3] == first[0].item_id
    assert taken[5] == 1
    assert not short.ack(first[0].item_id, first[0].token)


@pytest.mark.parametrize(
    ("position", "order"), [("back", ["b", "c", "a"]), ("front", ["a", "b", "c"])]
)
def test_a_reclaimed_item_goes_where_the_option_says(redis_client, position, order):
    vtrr = make_queue(redis_client, lease_seconds=0.001, reclaim_position=position)
    define(vtrr).queue("acme", [{"id": i} for i in "abc"])
    _, _, _, item_id, token, _ = vtrr._dequeue()
    assert item_id == "a"
    eventually(lambda: vtrr.reclaim() == 1, 5)
    assert not vtrr.ack(item_id, token)
    assert [lease.item_id for lease in lease_all(vtrr)] == order


def sent_triggers(app, queue_name):
    """Return the task names of the messages in this process's memory broker."""
    with app.connection_for_read() as connection, connection.SimpleQueue(queue_name) as messages:
        found = []
        while messages.qsize():
            message = messages.get_nowait()
            message.ack()
            found.append(message.headers["task"])
        return found


def test_reclaim_and_dispatch_sends_what_waits(redis_client):
    """Up to `max_concurrency` less what is outstanding."""
    app = make_app()
    vtrr = make_queue(
        redis_client, app=app, name="sent", dispatch="trigger", max_concurrency=3,
        celery_queue="sent", lease_seconds=0.001, trigger_timeout=0.1,
    )  # fmt: skip
    vtrr.work = define(vtrr)
    vtrr.work.queue("acme", [{} for _ in range(5)])
    assert sent_triggers(app, "sent") == ["vtrr_queue.trigger.sent"] * 3
    assert vtrr.reclaim_and_dispatch() == 0

    def again():
        """Triggers nobody took count as lost after `trigger_timeout`."""
        vtrr.reclaim_and_dispatch()
        return sent_triggers(app, "sent")

    assert eventually(again, 5) == ["vtrr_queue.trigger.sent"] * 3


def test_reclaim_and_dispatch_on_an_idle_queue_is_one_call(short):
    client = short.engine.client
    before = client.calls
    assert short.reclaim_and_dispatch() == 0
    assert client.calls == before + 1


@pytest.mark.parametrize(
    ("item_id", "token", "argument"),
    [(None, TOKEN, "item_id"), ("", TOKEN, "item_id"), (b"e1", TOKEN, "item_id"),
     ("e1", None, "token"), ("e1", "", "token"), ("e1", 5, "token"), ("\ud800", TOKEN, "item_id")],
    ids=ascii,
)  # fmt: skip
def test_an_ack_of_nonsense_is_refused(queue, redis_client, item_id, token, argument):
    before = snapshot(redis_client)
    with pytest.raises(VTRRError, match=rf"^{argument} must be") as caught:
        queue.ack(item_id, token)
    assert isinstance(caught.value, ValueError | TypeError)
    assert snapshot(redis_client) == before


# --- Celery's own calls ------------------------------------------------------
BAD_CALLS = {
    "no partition": ({}, "partition_key", "None"),
    "empty partition": ({"partition_key": ""}, "partition_key", "''"),
    "partition of bytes": ({"partition_key": b"a"}, "partition_key", "b'a'"),
    "weight": ({"partition_key": "a", "weight": 0}, "weight", "0"),
    "weight as text": ({"partition_key": "a", "weight": "2"}, "weight", "'2'"),
    "id": ({"partition_key": "a", "task_id": 5}, "task_id", "5"),
    "id of surrogates": ({"partition_key": "a", "task_id": "\ud800"}, "task_id", "'\\ud800'"),
    "countdown": ({"partition_key": "a", "countdown": float("nan")}, "countdown", "nan"),
    "countdown as text": ({"partition_key": "a", "countdown": "5"}, "countdown", "'5'"),
    "eta": ({"partition_key": "a", "eta": 5}, "eta", "5"),
    "hard limit": ({"partition_key": "a", "time_limit": "x"}, "time_limit", "'x'"),
    "no limit": ({"partition_key": "a", "time_limit": 0}, "time_limit", "0"),
    "limit beyond the lease": ({"partition_key": "a", "time_limit": 4000}, "time_limit", "4000"),
    "soft limit": ({"partition_key": "a", "soft_time_limit": -1}, "soft_time_limit", "-1"),
    "expires": ({"partition_key": "a", "expires": "foo"}, "expires", "'foo'"),
    "expires of a list": ({"partition_key": "a", "expires": []}, "expires", "[]"),
    "headers": ({"partition_key": "a", "headers": "foo"}, "headers", "'foo'"),
    "serializer": ({"partition_key": "a", "serializer": "no-such"}, "serializer", "'no-such'"),
    "args as text": ({"partition_key": "a", "args": "abc"}, "args", "'abc'"),
    "args as a dict": ({"partition_key": "a", "args": {"b": 1}}, "args", "{'b': 1}"),
    "kwargs as a list": ({"partition_key": "a", "kwargs": [("b", 1)]}, "kwargs", "[('b', 1)]"),
    "kwargs key": ({"partition_key": "a", "kwargs": {1: 2}}, "kwargs key", "1"),
}


@pytest.mark.parametrize(("call", "argument", "value"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_a_bad_apply_async_is_refused_by_name(queue, redis_client, call, argument, value):
    before = snapshot(redis_client)
    with pytest.raises(VTRRError) as caught:
        queue.work.apply_async(**call)
    assert isinstance(caught.value, ValueError | TypeError)
    assert str(caught.value).startswith(f"{argument} must be ")
    assert value in str(caught.value)
    assert snapshot(redis_client) == before


@pytest.mark.parametrize(
    "call",
    [{"args": [{1}]}, {"kwargs": {"a": {1}}}, {"headers": {"a": {1}}},
     {"args": [{"__type__": "no-such", "__value__": 1}]}],
    ids=ascii,
)  # fmt: skip
def test_an_apply_async_that_cannot_travel_is_refused(queue, redis_client, call):
    before = snapshot(redis_client)
    with pytest.raises(VTRRError, match="cannot be serialised: "):
        queue.work.apply_async(partition_key="acme", **call)
    assert snapshot(redis_client) == before


def test_apply_async_stores_an_item(queue):
    result = queue.work.apply_async((2,), {"b": 3}, partition_key="acme", task_id="i", weight=2)
    assert result.id == "i"
    leases = {lease.item_id: lease for lease in lease_all(queue)}
    assert (leases["i"].partition, leases["i"].weight) == ("acme", 2)
    assert decode(leases["i"].body).call() == ([2], {"b": 3})


@pytest.mark.parametrize(
    "when",
    [
        lambda: {"countdown": 3600},
        lambda: {"eta": datetime.now(UTC) + timedelta(hours=1)},
    ],
    ids=["countdown", "eta"],
)
def test_a_countdown_is_waited_for_in_redis(queue, redis_client, when):
    queue.work.apply_async(partition_key="acme", task_id="later", **when())
    assert [lease.item_id for lease in lease_all(queue)] == ["e1"]
    due = redis_client.zscore("vtrr:files:delayed", "later")
    assert abs(due / 1000 - time.time() - 3600) < 60


@pytest.mark.parametrize(
    "when",
    [
        {"countdown": 0},
        {"countdown": -5},
        {"eta": LONG_AGO},
        {"eta": LONG_AGO.replace(tzinfo=None)},
    ],
    ids=str,
)
def test_a_time_that_has_passed_is_now(queue, when):
    queue.work.apply_async(partition_key="acme", task_id="now", **when)
    assert [lease.item_id for lease in lease_all(queue)] == ["now", "e1"]


def test_an_eager_app_runs_in_the_caller_and_stores_nothing(redis_client):
    """As Celery's own `task_always_eager`."""
    vtrr = make_queue(redis_client, app=make_app(task_always_eager=True))
    ran = []

    @vtrr.task
    def work(self, number):
        ran.append((number, self.request.id))

    assert work.queue("acme", [{"args": [1], "id": "a"}, {"args": [2], "id": "b"}]) == ["a", "b"]
    assert work.apply_async([3], partition_key="acme", task_id="c").successful()
    assert ran == [(1, "a"), (2, "b"), (3, "c")]
    assert redis_client.dbsize() == 0


# --- several queues ----------------------------------------------------------
@pytest.mark.parametrize("other", ["file", "files2", "files:a", "queue", "*", "files:task:x"])
def test_queues_share_a_database(redis_client, other):
    """Neither sees the other's items, whatever its partitions are called."""
    app = make_app()
    one, two = make_queue(redis_client, app=app), make_queue(redis_client, app=app, name=other)
    work_one = define(one)

    @two.task
    def work_two(self):
        return None

    names = ["queue", "task", "files", other, "x:task", "a:queue"]
    for name in names:
        work_one.queue(name, [{"id": f"1{name}"}])
        work_two.queue(name, [{"id": f"2{name}"}])
    assert {lease.item_id for lease in lease_all(two)} == {f"2{name}" for name in names}
    leases = lease_all(one)
    assert {lease.item_id for lease in leases} == {f"1{name}" for name in names}
    for lease in leases:
        assert not two.ack(lease.item_id, lease.token)
        assert one.ack(lease.item_id, lease.token)
    prefix = f"vtrr:{other}:"
    held = [key.decode() for key in redis_client.scan_iter() if b":recent:" not in key]
    assert [key for key in held if not key.startswith(prefix)] == []


# --- the package -------------------------------------------------------------
def test_names_are_exported():
    assert {"VTRRQueue", "VTRRTask", "Engine", "VTRRError"} <= set(vtrr_queue.__all__)
    for name in vtrr_queue.__all__:
        assert getattr(vtrr_queue, name).__doc__


def test_the_current_app_proxy_is_an_app(redis_client):
    """`from celery import current_app` stands for the app of the moment."""
    app = Celery("proxied", broker="memory://")
    app.set_current()
    vtrr = VTRRQueue(redis_client, current_app, name="files", dispatch="direct")
    make_app().set_current()
    assert vtrr.app is app
    work = define(vtrr)
    assert isinstance(work, VTRRTask)
    assert work.name in app.tasks


def test_redis_is_not_touched_before_the_first_call():
    """A module can be imported where there is no server."""
    vtrr = make_queue(redis.Redis(port=1), reclaim_interval=5)
    work = define(vtrr, max_retries=5)
    assert not vtrr.app.configured
    assert work(1) == ((1,), {})
    with pytest.raises(Unavailable):
        work.queue("acme", [{}])


BLOCKER = """
import importlib.abc, sys

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"django", "django_redis", "kombu_django"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocker())
import redis
from celery import Celery
from vtrr_queue import VTRRQueue
vtrr = VTRRQueue(redis.Redis.from_url(sys.argv[1]), Celery("a", broker="memory://"), name="files")

@vtrr.task
def work(self, number):
    return number

work.queue("acme", [{"args": [1], "id": "i"}])
assert vtrr._dequeue()[1] == [1]
assert not [name for name in sys.modules if name.split(".")[0] == "django"]
print("done")
"""


def test_it_works_where_django_is_not_installed(redis_url):
    """Kombu looks for Django by itself, so it is hidden here."""
    command = [sys.executable, "-c", BLOCKER, redis_url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.stdout, ended.returncode) == ("done\n", 0), ended.stderr


def test_no_module_imports_django():
    source = Path(vtrr_queue.__file__).parent
    found = [
        path.name for path in source.rglob("*.py")
        if re.search(r"^\s*(import|from) django", path.read_text(), re.MULTILINE)
    ]  # fmt: skip
    assert found == []
