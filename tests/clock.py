"""A server clock that tests set: the scripts read a key where they would ask for the time.

Invariants: nothing else of a script differs from what is shipped; the key lies outside of every
queue.
"""

from contextlib import contextmanager

import pytest

from vtrr_queue.keys import OPTIONS, PREFIX
from vtrr_queue.scripting import load

KEY = "vtrr-test:now"
START_MS = 1_700_000_000_000
LEASE_MS = 60_000


def load_with_set_clock(name, options=OPTIONS, prefix=PREFIX, *, clock_key=""):
    """Compose a script whose `now_ms` reads the key."""
    script = load(name, options, prefix, clock_key=clock_key or KEY)
    assert "TIME" not in script.text
    return script


class Clock:
    """The time that scripts see, ms.

    Args:
        client: Where the key is set.
    """

    def __init__(self, client):
        self._client = client
        self.now_ms = START_MS
        self.advance(0)

    def advance(self, by_ms):
        """Let time pass."""
        self.now_ms += by_ms
        self._client.set(KEY, self.now_ms)


@contextmanager
def set_clock(client):
    """Give every script client of this process the set clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vtrr_queue.talk.load", load_with_set_clock)
        yield Clock(client)
