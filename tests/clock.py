"""A server clock that tests set: the scripts read a key where they would ask for the time.

Invariants: nothing else of a script differs from what is shipped; the key lies outside of every
queue.
"""

import hashlib
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.resources import files

import pytest

from vtrr_queue.scripting import load

KEY = "vtrr-test:now"
START_MS = 1_700_000_000_000
LEASE_MS = 60_000

_REAL = files("vtrr_queue.scripts").joinpath("lib", "now_ms.lua").read_text().split("\n", 1)[1]
_FAKE = f"""local function now_ms()
  return tonumber(redis.call("GET", "{KEY}"))
end
"""


@cache
def load_with_set_clock(name, full=True):
    """Compose a script whose `now_ms` reads the key."""
    script = load(name, full)
    text = script.text.replace(_REAL, _FAKE)
    assert "TIME" not in text.replace("CURRENT_VIRTUAL_TIME", "").replace("VIRTUAL_TIME", "")
    return replace(script, text=text, sha=hashlib.sha1(text.encode()).hexdigest())


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
        patch.setattr("vtrr_queue.client.load", load_with_set_clock)
        yield Clock(client)
