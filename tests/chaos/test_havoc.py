"""Whatever is killed, cut, paused and lost: no item is lost, and each ends once."""

import os
import random

import pytest

from tests.chaos import aof
from tests.chaos.plan import digest, plan
from tests.chaos.scene import Scene
from vtrr_queue.inspector import Inspector

CI_SECONDS, LONG_SECONDS = 60, 300
SECONDS = float(os.environ.get("CHAOS_SECONDS", LONG_SECONDS))
SEED = int(os.environ.get("CHAOS_SEED", random.randrange(10**6)))


@pytest.mark.slow
@pytest.mark.timeout(CI_SECONDS + 240)
def test_a_minute_of_havoc(tmp_path):
    check_havoc(tmp_path, SEED, CI_SECONDS)


@pytest.mark.chaos
@pytest.mark.timeout(SECONDS + 400)
def test_a_long_havoc(tmp_path):
    """`CHAOS_SECONDS` of it, 300 by default; `CHAOS_SEED` repeats a plan."""
    check_havoc(tmp_path, SEED, SECONDS)


def check_havoc(folder, seed, seconds):
    """Let a plan happen, mend everything, and compare the ledger with the server's own file."""
    events = plan(seed, seconds)
    print(f"CHAOS_SEED={seed}, {seconds:g} s, plan {digest(events)}")  # noqa: T201
    with Scene(folder, seed) as scene:
        scene.perform(events)
        scene.heal()
        inspectors = [Inspector(vtrr.engine) for vtrr in scene.app.queues.values()]
        audits = [inspector.audit() for inspector in inspectors]
        with scene.state.client() as client:
            kept = [key.decode() for key in client.keys("vtrr:*") if b":recent:" not in key]
        found = {name: aof.lives(scene.state.folder, name) for name in scene.app.queues}
        logs = "\n".join(worker.log() for worker in scene.all_workers)
    report(scene, found)
    assert audits == [[], []]
    assert [key for key in kept if not key.endswith(":triggers")] == []
    assert scene.crowded == []
    for name, items in found.items():
        check_items(scene, name, items, logs)


def check_items(scene, name, items, logs):
    """No acknowledged item is lost; each life ends once, in a run that came to its end."""
    lost = scene.acknowledged[name] - items.keys()
    assert not lost, f"never stored: {sorted(lost)[:9]}"
    for item_id, lives in items.items():
        for life in lives:
            last = life.leases[-1]
            assert set(life.ends) == set(life.leases), (item_id, life)
            acked = [token for token, end in life.ends.items() if end == "acked"]
            assert acked == [last], f"{item_id}: {life}"
            # A soft limit may come before the function's first line: then Celery tells of it.
            ended = "end " in read(scene, item_id, last)
            assert ended or says_limit(logs, item_id), f"{item_id} was acked before its end"
    known = {f"{item_id}.{token}" for item_id, lives in items.items()
             for life in lives for token in life.leases}  # fmt: skip
    other = {f"{i}.{t}" for i, t in runs_of(scene) if i in items} - known
    assert not other, f"runs without a lease: {sorted(other)[:9]}"


def runs_of(scene):
    """Item and token of every run that left a file."""
    return [path.name.rsplit(".", 1) for path in scene.ledger.iterdir()]


def read(scene, item_id, token):
    path = scene.ledger / f"{item_id}.{token}"
    return path.read_text() if path.exists() else ""


def says_limit(logs, item_id):
    return any(f"[{item_id}]" in line and "SoftTimeLimitExceeded" in line
               for line in logs.splitlines())  # fmt: skip


def report(scene, found):
    """Print what happened."""
    runs = runs_of(scene)
    print("events:", dict(scene.happened))  # noqa: T201
    for name, items in found.items():
        lives = sum(len(each) for each in items.values())
        again = sum(len(life.leases) - 1 for each in items.values() for life in each)
        print(  # noqa: T201
            f"{name}: {len(scene.acknowledged[name])} items acknowledged, {lives} lives, "
            f"{sum(item_id in items for item_id, _ in runs)} runs, {again} leases beyond the first"
            f", which ended as {dict(aof.ends(items))}"
        )
    print(f"calls that failed: {scene.unsure} items; replies lost {scene.proxy.dropped}, "  # noqa: T201
          f"late {scene.proxy.stalled}; workers started: {len(scene.all_workers)}")  # fmt: skip
