"""`durability=` of the task's calls."""

import pytest
from celery import Celery

from vtrr_queue import ArgumentError, ArgumentTypeError, NotDurable, VTRRQueue


@pytest.fixture
def vtrr(redis_client):
    app = Celery("durable", broker="memory://")
    vtrr = VTRRQueue(redis_client, app, name="durable")

    @vtrr.task
    def act(self):
        """Do nothing."""

    vtrr.act = act
    yield vtrr
    vtrr.engine.client.close()
    redis_client.flushdb()


@pytest.mark.parametrize("level", ["disk", "", True, 1])
def test_a_level_nobody_knows_is_refused(vtrr, redis_client, level):
    with pytest.raises(ArgumentError, match=r"^durability must be 'fsync' or 'replicated'"):
        vtrr.act.queue("p", [{}], durability=level)
    assert redis_client.keys("*") == []


@pytest.mark.parametrize("timeout", [0, -1, "5", None, True, float("inf"), float("nan")])
def test_a_timeout_of_nonsense_is_refused(vtrr, redis_client, timeout):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=r"^durability_timeout must be"):
        vtrr.act.queue("p", [{}], durability="replicated", durability_timeout=timeout)
    assert redis_client.keys("*") == []


def test_items_that_are_not_confirmed_are_stored_and_their_triggers_sent(vtrr):
    """The server has no replica."""
    options = {"durability": "replicated", "durability_timeout": 0.1}
    with pytest.raises(NotDurable, match="'one', 'two'") as caught:
        vtrr.act.queue("p", [{"id": "one"}, {"id": "two"}], **options)
    assert caught.value.item_ids == ("one", "two")
    with pytest.raises(NotDurable, match="'three'"):
        vtrr.act.apply_async(task_id="three", partition_key="p", **options)
    depth = vtrr.inspector.depth()
    assert (depth.waiting, depth.triggers) == (3, 3)
