"""One worker with a single slot runs two queues: neither waits for the other to be empty."""

import importlib
import sys

import pytest

from tests.servers import Server
from tests.waiting import eventually
from tests.workers import APPS, Worker

WORKERS = ["trigger prefork", "direct prefork", "trigger threads", "direct threads", "direct solo"]


@pytest.fixture(scope="module", params=WORKERS)
def shared(request, tmp_path_factory):
    """The module of the app as a producer, its worker running."""
    dispatch, pool = request.param.split()
    with Server() as server, pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(APPS)
        patch.setenv("SHARING_URL", server.url().rsplit("/", 1)[0])
        patch.setenv("SHARING_DISPATCH", dispatch)
        module = importlib.import_module("sharing")
        log_path = tmp_path_factory.mktemp("logs") / "worker.log"
        with Worker("sharing", queues=["shared"], pool=pool, concurrency=1, log_path=log_path):
            module.notes = server.client(2, decode_responses=True)
            yield module
            module.notes.close()
        for vtrr in (module.long, module.short):
            vtrr.engine.client.close()
        del sys.modules["sharing"]


def runs(shared):
    """What has run, in order."""
    return shared.notes.lrange("runs", 0, -1)


def test_an_idle_slot_takes_from_either_queue(shared):
    """Whichever was asked first: an item of each, again and again."""
    shared.notes.delete("runs")
    for number in range(1, 9):
        shared.dig.queue("acme", [{"args": [number]}])
        shared.pick.queue("acme", [{"args": [number]}])
        eventually(lambda most=2 * number: len(runs(shared)) == most, 3, "both items")


def test_a_busy_queue_lets_the_other_have_a_turn(shared):
    """A slot that an item leaves is not its queue's own."""
    shared.notes.delete("runs")
    shared.dig.queue("acme", [{"args": [number]} for number in range(60)])
    eventually(lambda: len(runs(shared)) >= 5, 10, "some items of the long queue")
    shared.pick.queue("acme", [{"args": [number]} for number in range(3)])
    begun = len(runs(shared))
    eventually(lambda: len(runs(shared)) == 63, 20, "all items")
    places = [place for place, text in enumerate(runs(shared)) if text.startswith("short")]
    # Four triggers of the long queue are ahead, and each may serve two items of 15 ms.
    assert places[0] - begun < 12
    assert places[-1] - begun < 24


def test_a_plain_task_gives_its_slot_to_an_item(shared):
    """At once, not at the next look of the keeper; for either queue."""
    for queue in (shared.dig, shared.pick):
        shared.notes.delete("runs")
        shared.nap.apply_async(queue="shared")
        eventually(lambda: runs(shared) == ["nap begins"], 5, "the nap")
        queue.queue("acme", [{"args": [1]}])
        eventually(lambda: len(runs(shared)) == 3, 3, "the nap's end and the item")
        assert runs(shared)[1] == "nap ends"
