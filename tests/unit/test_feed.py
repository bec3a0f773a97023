"""What a worker's feed remembers while it talks to the server."""

from types import SimpleNamespace

import pytest
from celery import Celery
from celery.concurrency.base import BasePool

from tests.queues import items
from vtrr_queue import VTRRQueue
from vtrr_queue.celery.feed import Feed
from vtrr_queue.celery.holding import Held


class Loop:
    """A worker with one slot that never runs anything."""

    hostname = "worker"
    slots = 1

    def __init__(self):
        self.consumer = SimpleNamespace(
            task_consumer=SimpleNamespace(consuming_from=lambda _: True), pool=BasePool()
        )
        self.woken = 0
        self.keeper = SimpleNamespace(expect=lambda *_: None, busy=lambda _: None)

    def accepting(self):
        return True

    def wake(self):
        self.woken += 1


class Run:
    """A request of Celery that notes when it is to be stopped."""

    stops = 0

    def vtrr_stop(self, _pool):
        self.stops += 1


@pytest.fixture
def feed(redis_client):
    app = Celery("feeding", broker="memory://")
    vtrr = VTRRQueue(
        redis_client, app, name="files", dispatch="direct", heartbeat=True,
        on_lease_lost="terminate",
    )  # fmt: skip
    yield Feed(vtrr, Loop())
    vtrr.engine.client.close()


def test_a_hint_that_comes_during_a_lease_stands(feed, monkeypatch):
    """The server answered "empty" before the item came; the worker has to ask again."""
    ask = feed.vtrr.engine.client.call_many

    def hinted(calls):
        replies = ask(calls)
        feed.hint()
        return replies

    monkeypatch.setattr(feed.vtrr.engine.client, "call_many", hinted)
    feed.run(1)
    assert feed.wanting


def test_an_empty_answer_ends_the_asking(feed):
    """Until a hint comes, an idle worker asks no more."""
    assert feed.wanting
    feed.run(1)
    assert not feed.wanting
    feed.hint()
    assert feed.wanting
    assert feed.next_due() is None


def lose(feed, *, started=True):
    """Let a run lose its lease; what is held, and its request."""
    feed.vtrr.engine.enqueue("p", items("a"))
    (lease,) = feed.vtrr.engine.lease().items
    held, run = Held(lease), Run()
    feed.held[lease.token] = held
    if started:
        feed.started(lease, run)
    feed.lose([held])
    return held, run


def test_a_pool_that_cannot_stop_a_run_is_told_at_once_and_once(feed):
    """The loop of the solo pool is busy with the run: it must not be asked again and again."""
    _, run = lose(feed)
    assert run.stops == 1
    assert feed.next_due() is None
    assert feed.feeder.woken == 0


def test_a_pool_that_can_is_told_by_the_loop(feed):
    """Or by the keeper, while the loop stands still."""
    feed.feeder.consumer.pool.terminate_job = lambda *_: None
    _, run = lose(feed)
    assert (run.stops, feed.feeder.woken) == (0, 1)
    assert feed.next_due() == 0
    feed.run(0)
    assert run.stops == 1
    assert feed.next_due() is None


def test_a_run_that_has_lost_its_lease_before_it_began_is_stopped_when_it_does(feed):
    feed.feeder.consumer.pool.terminate_job = lambda *_: None
    held, run = lose(feed, started=False)
    assert feed.next_due() is None
    feed.started(held.lease, run)
    feed.run(0)
    assert run.stops == 1


def test_a_lease_taken_ahead_and_lost_is_never_started(feed):
    """It runs elsewhere by then."""
    feed.vtrr.engine.enqueue("p", items("a", "b"))
    leases = feed.vtrr.engine.lease(count=2).items
    for lease in leases:
        feed.held[lease.token] = Held(lease)
        feed._ahead.put(feed.held[lease.token])
    feed.lose([feed.held[leases[0].token]])
    submitted = []
    feed._submit = submitted.append
    feed.run(1)
    assert [held.lease for held in submitted] == [leases[1]]
    assert list(feed.held) == [leases[1].token]
