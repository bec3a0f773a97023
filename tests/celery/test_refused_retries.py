"""A retry that can never be stored ends the item as a dead letter, with the reason."""

import importlib
import sys

import pytest

from tests.servers import Server
from tests.waiting import eventually
from tests.workers import APPS
from vtrr_queue.inspector import Inspector

REASONS = {
    "payload": "args or kwargs cannot be serialised",
    "marker": "args or kwargs cannot be serialised",
    "countdown": "countdown must be a finite number",
}


@pytest.fixture
def server():
    """A server of this test alone."""
    with Server() as private:
        yield private


@pytest.fixture
def refused(server, monkeypatch):
    """The module of the app, as a producer."""
    monkeypatch.syspath_prepend(APPS)
    monkeypatch.setenv("REFUSED_URL", server.url().rsplit("/", 1)[0])
    yield importlib.import_module("refused")
    sys.modules.pop("refused").vtrr.engine.client.close()


def test_a_retry_that_cannot_be_stored_is_not_run_for_ever(refused, server, start_worker):
    """It runs once: another run would ask for the same."""
    inspector = Inspector(refused.vtrr.engine)
    refused.again.queue("acme", [{"kwargs": {"how": how}, "id": how} for how in REASONS])
    start_worker("refused", queues=["refused"])
    eventually(lambda: inspector.depth().dead == len(REASONS), 15, "the dead letters")
    with server.client(2) as notes:
        for how in REASONS:
            assert notes.lrange(how, 0, -1) == [b"0"]
    for letter in inspector.dead_letters():
        assert REASONS[letter.item_id] in letter.reason
    assert inspector.depth().running == inspector.depth().waiting == 0
    assert inspector.audit() == []
