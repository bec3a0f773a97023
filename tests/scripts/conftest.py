"""Calls scripts by the names in their headers, with a set clock, and audits what they leave."""

import itertools

import pytest

from tests.clock import LEASE_MS, set_clock
from tests.stored import stored
from vtrr_queue.engine import Engine
from vtrr_queue.inspector import Inspector
from vtrr_queue.scripting import load

DEFAULTS = {
    "replay": 0, "producer": "p", "remember_ms": 10_000, "partition": "a", "on_duplicate": "skip",
    "triggers_most": 0, "triggers_timeout": 60_000, "triggers_prefix": "n", "channel": "",
    "items": 1_000_000, "fresh": 1, "hint": "ready", "tells": 1,
    "valid_until": 0, "lease_ms": LEASE_MS, "holder": "h", "position": "back", "trigger_id": "",
    "timed_out": 0, "delay_ms": 0, "retry_count": 1, "body": "again", "note": "because",
    "most": 100, "pulled": 0, "bounds": "0 1000 1000000", "why": "gone", "only": "",
    "keep_ms": 60_000, "totals": 1,
}  # fmt: skip


class Scripts:
    """One queue's scripts.

    Args:
        engine: Whose connection is used; its methods are not.
        redis_client: Reads what is stored.
    """

    def __init__(self, engine, redis_client):
        self.client, self.keys = engine.client, engine.keys
        self.redis_client = redis_client
        self.inspector = Inspector(engine)
        self.numbers = itertools.count(1)

    def call(self, name, echo, *rest, **arguments):
        """Run a script with the arguments its header names; those left out have a default."""
        if name == "enqueue":
            arguments = {"call": next(self.numbers)} | arguments
        names = [argument for argument, _, _ in load(name).header.arguments[1:]]
        given = DEFAULTS | arguments
        most, lost_after, prefix = (given[f"triggers_{w}"] for w in ("most", "timeout", "prefix"))
        given["budget"] = f"{most} {lost_after} {prefix}" if most else ""
        assert arguments.keys() <= {*names, "triggers_most", "triggers_timeout", "triggers_prefix"}
        values = [*(given[argument] for argument in names), *rest]
        return self.client.call(name, echo, lambda _: values)

    def put(self, partition, *item_ids, weight=1, delay_ms=0, **arguments):
        """Enqueue items of one weight and delay."""
        mark = f"{weight}+{delay_ms}" if delay_ms else weight
        entries = [word for i in item_ids for word in (i, mark, f"{i}!")]
        return self.call("enqueue", "e", *entries, partition=partition, **arguments)

    def take(self, *tokens, **arguments):
        """Lease under these tokens; the ids in order."""
        reply = self.call("lease", tokens[0], *tokens, **arguments)
        return [item_id.decode() for item_id in reply[7::2]]

    def twice(self, name, echo, *rest, **arguments):
        """Run a script and run it again as after a lost reply: nothing may differ."""
        if name == "enqueue":
            arguments = {"call": next(self.numbers)} | arguments
        reply = self.call(name, echo, *rest, **arguments)
        before = self.stored()
        has_replay = any(a[0] == "replay" for a in load(name).header.arguments)
        again = arguments | ({"replay": 1} if has_replay else {})
        assert self.call(name, echo, *rest, **again) == reply
        assert self.stored() == before
        return reply

    def stored(self):
        """All that the queue keeps, without the short-lived call markers."""
        return stored(self.redis_client)


@pytest.fixture
def clock(redis_client):
    with set_clock(redis_client) as clock:
        yield clock


@pytest.fixture
def scripts(redis_client, clock):
    """Scripts of an empty queue; what a test leaves behind must keep the invariants."""
    engine = Engine(redis_client, "q")
    scripts = Scripts(engine, redis_client)
    yield scripts
    violations = scripts.inspector.audit()
    engine.client.close()
    assert violations == []


@pytest.fixture(params=["newer", "older"])
def foreign(request, scripts):
    """Keys of another layout, which a test must leave alone; yields what a reply says of them."""
    if request.param == "newer":
        scripts.redis_client.set(scripts.keys["schema"], 99)
    else:
        scripts.redis_client.zadd(scripts.keys["queue"], {"item": 1})
    before = scripts.stored()
    yield b"99" if request.param == "newer" else b""
    assert scripts.stored() == before
    scripts.redis_client.flushdb()


@pytest.fixture
def heard(scripts):
    """Read what was published since the last call on the wake channel."""
    with scripts.redis_client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe("wake")
        pubsub.get_message(timeout=5)

        def read():
            scripts.redis_client.publish("wake", "end")
            messages = []
            while not messages or messages[-1] != b"end":
                message = pubsub.get_message(timeout=5)
                assert message or not messages
                messages += [message["data"]] if message else []
            return messages[:-1]

        yield read
