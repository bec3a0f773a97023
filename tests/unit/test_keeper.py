"""The order in which a worker's keeper listens and looks."""

from types import SimpleNamespace

from vtrr_queue.celery.keeper import Keeper


class Recording(Keeper):
    """A keeper that says when it would look."""

    def __init__(self, events):
        super().__init__(SimpleNamespace(feeds=[]))
        self.events = events

    def look_soon(self, feed):
        self.events.append(f"look at {feed.vtrr.name}")


def test_it_looks_once_the_subscription_stands():
    """An item enqueued between a look and the subscription would wait for the next look."""
    events = []
    keeper = Recording(events)

    def hear(channel):
        events.append(f"subscribed to {channel}")
        yield None
        keeper.stop()
        yield None

    engine = SimpleNamespace(
        client=SimpleNamespace(hear=hear), keys=SimpleNamespace(wake_channel="wake")
    )
    keeper._hear(SimpleNamespace(vtrr=SimpleNamespace(engine=engine, name="q")))
    assert events == ["subscribed to wake", "look at q"]
