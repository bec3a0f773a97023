"""Whatever is killed, cut, paused and lost: no item is lost, and each ends once."""

import contextlib
import os
import random
import shutil

import pytest

from tests.chaos.plan import digest, plan
from tests.chaos.scene import DURABLE, SLOTS, Scene
from tests.chaos.verdict import Verdict
from tests.servers import Server
from vtrr_queue.engine import Engine
from vtrr_queue.inspector import Inspector

CI_SECONDS, LONG_SECONDS = 60, 300
INSTANTS = 6
"""At how many instants of the run the audit looks at what was stored."""
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
    print(f"CHAOS_SEED={seed}, {seconds:g} s, plan {digest(events)}")
    with Scene(folder, seed) as scene:
        scene.perform(events)
        scene.heal()
        inspectors = [Inspector(vtrr.engine) for vtrr in scene.app.queues.values()]
        audits = [inspector.audit() for inspector in inspectors]
        audits += audits_within(scene, seed)
        verdict = Verdict(scene, SLOTS)
    assert audits == [[]] * len(audits)
    try:
        verdict.check()
    finally:
        print(verdict.report())


def audits_within(scene, seed):
    """What the audit says of the queues as they were at random instants.

    A copy of the server's file is cut there, and a server reads it: nothing runs meanwhile.
    """
    chance, said = random.Random(f"{seed} audit"), []
    (source,) = (scene.state.folder / "appendonlydir").glob("*.incr.aof")
    for _ in range(INSTANTS):
        with contextlib.closing(Server("valkey", *DURABLE)) as server:
            copy = shutil.copytree(source.parent, server.folder / source.parent.name)
            os.truncate(copy / source.name, int(source.stat().st_size * chance.random()))
            server.start()
            with server.client() as client:
                engines = [Engine(client, name, lease_seconds=1) for name in scene.app.queues]
                said += [Inspector(engine).audit() for engine in engines]
                for engine in engines:
                    engine.client.close()
    return said
