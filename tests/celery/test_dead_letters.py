"""What fails for good is kept with its reason, and nothing else waits for it."""

import pytest
from celery import Celery

from tests.stage import DISPATCHES, Stage
from tests.stored import without_statistics
from tests.waiting import eventually
from vtrr_queue import VTRRQueue
from vtrr_queue.errors import ArgumentError, ArgumentTypeError
from vtrr_queue.model import NewItem
from vtrr_queue.payload import encode

GOOD = 100
LOST = "max_timeouts: 2 lost runs, the last one: "
REASONS = {
    "die": (2, LOST, "SIGKILL"),
    "leave": (2, LOST, ""),
    "generator_exit": (2, LOST, ""),
    "run_out_of_memory": (1, "the function raised", ""),
    "fail": (1, "the function raised", ""),
    "fragile": (0, "the run failed outside of its function", ""),
    "garbage": (0, "", ""),
    "foreign": (0, "task 'poison.plain' is not the task of this queue", ""),
}
"""Poison -> its runs until the bound, start of the reason, and what else the reason says."""

STATIONS = [("prefork", dispatch) for dispatch in DISPATCHES] + [("threads", "direct")]


@pytest.fixture(params=STATIONS, ids="-".join)
def stage(request, tmp_path):
    pool, dispatch = request.param
    with Stage("poison", tmp_path, dispatch=dispatch) as opened:
        opened.pool = pool
        yield opened


def poisons(stage):
    """Poisons that the pool survives: threads share their process."""
    return [deed for deed in REASONS if stage.pool == "prefork" or deed not in {"die", "fragile"}]


def enqueue(stage):
    """Mix poison and good items in partitions of both."""
    vtrr, act = stage.app.vtrr, stage.app.act
    calls = [deed for deed in poisons(stage) if deed not in {"garbage", "foreign", "fragile"}]
    if stage.pool == "prefork":
        act.apply_async(["fragile"], partition_key="p", task_id="fragile", serializer="fragile")
    act.queue("p", [{"id": deed, "args": [deed]} for deed in calls])
    broken = [
        NewItem("garbage", b"no payload \x00\xff"),
        NewItem("foreign", encode("poison.plain", [], {})),
    ]
    vtrr.store("p", broken)
    for partition in ("p", "q"):
        act.queue(partition, [{"args": ["good"]} for _ in range(GOOD // 2)])


def test_poison_is_dead_after_its_bound_and_good_items_finish(stage):
    """Each letter names its reason; requeued and cured, each of them runs."""
    enqueue(stage)
    stage.start_worker(queues=["poison"], pool=stage.pool, concurrency=2)
    dead = stage.app.vtrr.dead
    eventually(lambda: len(dead) == len(poisons(stage)), 40, "the dead letters")
    stage.wait_rest("poison", 30)
    runs = stage.traces.runs()
    assert sum(run["args"] == ["good"] for run in runs) == GOOD
    letters = {letter.item_id: letter for letter in dead.latest()}
    assert set(letters) == set(poisons(stage))
    for deed, letter in letters.items():
        bound, start, rest = REASONS[deed]
        assert sum(run["id"] == deed for run in runs) == bound, deed
        assert letter.reason.startswith(start), deed
        assert letter.reason, deed
        assert rest in letter.reason, deed
        assert letter.partition == "p"
        assert letter.timeouts == (bound if start == LOST else 0)
        assert letter.started_at_ms <= letter.died_at_ms
    if stage.pool == "prefork":  # what Celery itself logs does not name the item
        assert "[fragile] failed outside of its function" in stage.workers[0].log()
    assert letters["garbage"].body == b"no payload \x00\xff"
    assert letters["fail"].exception == "ValueError('always')"
    assert 'raise ValueError("always")' in letters["fail"].traceback
    assert dead.payload("fail").call() == (["fail"], {})

    stage.traces.client.set("cured", "yes")
    assert dead.requeue("fail", "nobody") == ["fail"]
    eventually(lambda: len(stage.traces.runs("fail")) == 2, 20, "the run of the requeued item")
    assert stage.traces.runs("fail")[-1]["timeouts"] == 0
    assert dead.requeue_all() == len(poisons(stage)) - 1
    eventually(lambda: len(dead) == 2, 20, "the two that can't be cured")
    stage.wait_rest("poison", 30)
    assert {letter.item_id for letter in dead.latest()} == {"garbage", "foreign"}
    assert dead.drop("garbage") == ["garbage"]
    assert dead.drop_partition("p") == 1
    eventually(lambda: not without_statistics(stage.redis.keys("vtrr:*")), 20, "no key left")


def test_letters_are_listed_by_partition(vtrr_with_letters):
    dead = vtrr_with_letters.dead
    assert [letter.item_id for letter in dead.latest()] == ["b1", "a2", "a1"]
    assert [letter.item_id for letter in dead.latest(partition="a")] == ["a2", "a1"]
    assert [letter.item_id for letter in dead.latest(1, partition="a")] == ["a2"]
    assert dead.latest(partition="nobody") == []
    assert dead.get("a1").reason == "because"
    assert dead.get("nobody") is None
    with pytest.raises(KeyError, match="nobody"):
        dead.payload("nobody")


def test_a_partition_is_requeued_or_dropped_by_itself(vtrr_with_letters):
    dead = vtrr_with_letters.dead
    assert dead.requeue_partition("a") == 2
    assert [letter.item_id for letter in dead.latest()] == ["b1"]
    assert dead.drop_all() == 1
    depth = vtrr_with_letters.engine.lease(count=9)
    assert [lease.item_id for lease in depth.items] == ["a1", "a2"]


@pytest.mark.parametrize("call", ["requeue_partition", "drop_partition", "requeue", "drop"])
def test_an_empty_name_is_refused(vtrr_with_letters, call):
    """It would mean any."""
    dead = vtrr_with_letters.dead
    with pytest.raises(ArgumentError):
        getattr(dead, call)("")
    with pytest.raises(ArgumentTypeError):
        getattr(dead, call)(None)
    assert len(dead) == 3


def test_hundreds_of_letters_are_walked(vtrr_with_letters):
    vtrr = vtrr_with_letters
    vtrr.dead.drop_all()
    vtrr.store("many", [NewItem(f"m{n:03}", b"x") for n in range(350)])
    for lease in vtrr.engine.lease(count=350).items:
        vtrr.engine.bury(lease.item_id, lease.token, "because")
    assert len(vtrr.dead.latest(1000)) == 350
    assert vtrr.dead.requeue_all() == 350
    leased = [lease.item_id for lease in vtrr.engine.lease(count=350).items]
    assert leased == [f"m{n:03}" for n in range(350)]


@pytest.fixture
def vtrr_with_letters(redis_client):
    """A queue with the letters a1, a2 and b1, which died in this order."""
    vtrr = VTRRQueue(redis_client, Celery(broker="memory://"), name="q", dispatch="direct")
    for item_id in ("a1", "a2", "b1"):
        vtrr.store(item_id[0], [NewItem(item_id, b"x")])
        lease = vtrr.engine.lease().items[0]
        vtrr.engine.bury(lease.item_id, lease.token, "because")
        now = redis_client.time()
        eventually(lambda now=now: redis_client.time() > (now[0], now[1] + 1100), 5, "a later ms")
    yield vtrr
    vtrr.engine.client.close()
    redis_client.flushdb()
