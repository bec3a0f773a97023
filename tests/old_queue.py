"""A queue as release 0.2 left it, and what an undisturbed conversion makes of it."""

import json
from contextlib import closing

import pytest

from tests.stored import stored
from vtrr_queue.migrate.conversion import Migration

NAME = "files"
FAR = 4_000_000_000  # a lease that outlives the tests, s
PAST = 1_000_000_000
COLONS = "tenant:7:eu"

# id, score, partition, weight, timeouts; equal scores go by id, "t-10" before "t-9"
WAITING = [
    ("a2", 1, "acme", "1", 3),
    ("a1", 0, "acme", "1", 0),
    ("a3", 2, "acme", "2", 0),
    ("t-9", 0, COLONS, "2.5", 0),
    ("t-10", 0, COLONS, "2.5", 1),
    ("t-1", 5, COLONS, "1.0", 0),
    ("z1", 0.5, "zoë", "1", 0),
]
LEASED = [
    ("a0", FAR, "acme", "1", 1, "11" * 16),
    ("t-0", PAST, COLONS, "2.5", 2, "22" * 16),
]
ORDER = {"acme": ["a1", "a2", "a3"], COLONS: ["t-10", "t-9", "t-1"], "zoë": ["z1"]}
TIMEOUTS = {item[0]: item[4] for item in (*WAITING, *LEASED)}


def call(item_id, task_name="app.run"):
    return {"task_name": task_name, "args": [item_id, [], 10**20], "kwargs": {"zoë": {}}}


def enqueue_old(client, item_id, score, partition, weight="1", timeouts=0, text=None):
    """Write what 0.2 keeps of a waiting item."""
    key = f"vtrr:{NAME}:".__add__
    client.zadd(key("queue"), {item_id: score})
    client.hset(key("task"), item_id, text or json.dumps(call(item_id)))
    client.hset(key("meta"), item_id, f"{weight}:{partition}")
    client.hset(key("partition_virtual_time"), partition, score + float(weight))
    client.set(key("current_virtual_time"), "0.5")
    if timeouts:
        client.hset(key("timeouts"), item_id, timeouts)


def lease_old(client, item_id, expiry, partition, weight, timeouts, token, text=None):
    """Write what 0.2 keeps of a leased item."""
    key = f"vtrr:{NAME}:".__add__
    client.zadd(key("inflight"), {item_id: expiry})
    client.hset(key("inflight_task"), item_id, text or json.dumps(call(item_id)))
    client.hset(key("meta"), item_id, f"{weight}:{partition}")
    client.hset(key("lease"), item_id, token)
    client.hset(key("timeouts"), item_id, timeouts)


def fill(client, task_name="app.run"):
    for item in WAITING:
        enqueue_old(client, *item, text=json.dumps(call(item[0], task_name)))
    for item in LEASED:
        lease_old(client, *item, text=json.dumps(call(item[0], task_name)))


def convert(client, batch=500, report=lambda _: None):
    with closing(Migration(client, NAME, batch)) as migration:
        return migration.run(report), migration.placed


def state(client):
    """Everything stored, less the moments at which it was converted."""
    found = stored(client, NAME)
    found["lease"] = {
        token: text.split(b" ", 1)[-1] for token, text in found.get("lease", {}).items()
    }
    return found


class Stopped(Exception):
    """Ends a conversion between two batches."""


def stop_after(client, batches, size=2):
    """Convert some batches, then stop; return how many items they were."""
    seen = []

    def stop(total):
        seen.append(total.items)
        if len(seen) == batches:
            raise Stopped

    with pytest.raises(Stopped):
        convert(client, size, stop)
    return seen[-1]


def drain(engine):
    """Lease and ack until nothing is left; return the leases."""
    leases = []
    while items := engine.lease(count=3).items:
        for item in items:
            assert engine.ack(item.item_id, item.token).held
        leases += items
    return leases
