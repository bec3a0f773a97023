"""What a worker's feed remembers while it talks to the server."""

from types import SimpleNamespace

import pytest
from celery import Celery

from vtrr_queue import VTRRQueue
from vtrr_queue.celery.feed import Feed


class Loop:
    """A worker with one slot that never runs anything."""

    hostname = "worker"

    def __init__(self):
        self.consumer = SimpleNamespace(
            task_consumer=SimpleNamespace(consuming_from=lambda _: True)
        )
        self.keeper = SimpleNamespace(expect=lambda *_: None, busy=lambda _: None)

    def accepting(self):
        return True

    def wake(self):
        pass


@pytest.fixture
def feed(redis_client):
    app = Celery("feeding", broker="memory://")
    vtrr = VTRRQueue(redis_client, app, name="files", dispatch="direct")
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
