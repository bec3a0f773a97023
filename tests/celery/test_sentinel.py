"""A primary dies and Sentinel names another: workers go on, and what is lost is known."""

import os
from collections import Counter
from signal import SIGCONT, SIGSTOP

import pytest

from tests.producers import Producer
from tests.sentinels import Watched
from tests.servers import Server
from tests.stage import load_app
from tests.waiting import eventually
from tests.workers import Worker
from vtrr_queue.engine import Engine
from vtrr_queue.inspector import Inspector
from vtrr_queue.model import Durability, NewItem

CUT_SECONDS = 0.2
FAILOVERS = int(os.environ.get("CHAOS_FAILOVERS", "5"))


@pytest.fixture
def watched():
    with Watched() as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("dispatch", ["direct", pytest.param("trigger", marks=pytest.mark.chaos)])
@pytest.mark.timeout(120)
def test_workers_go_on_after_a_failover(watched, tmp_path, dispatch):
    """Every item whose enqueue a replica had runs; one that runs twice was counted."""
    with Server() as broker:
        sentinels = str([list(each) for each in watched.addresses]).replace("'", '"')
        env = {"BROKER_URL": broker.url(), "DISPATCH": dispatch, "SENTINELS": sentinels}
        app = load_app("guarded", env)

        def enqueue(item_id):
            app.act.queue(f"p{len(item_id)}", [{"id": item_id}], durability="replicated")
            producer.over.wait(0.005)

        producer = Producer(enqueue)
        worker = Worker("guarded", log_path=tmp_path / "worker.log", env=env, queues=["guarded"])
        with worker, watched.replica.client() as client:
            producer.start()
            eventually(lambda: app.traces.count() > 30, 20, "runs")
            watched.fail_over()
            before = app.traces.count()
            eventually(lambda: app.traces.count() > before + 30, 30, "runs after the failover")
            producer.end()
            eventually(lambda: not client.exists("vtrr:guarded:task"), 40, "an empty queue")
            engine = Engine(client, "guarded")
            assert Inspector(engine).audit() == []
            engine.client.close()
        runs, ends = app.traces.runs(), Counter(app.traces.ends())
        assert set(producer.acknowledged) <= ends.keys()
        timeouts = Counter(run["id"] for run in runs if run["timeouts"])
        assert all(count <= 1 + timeouts[item_id] for item_id, count in ends.items())
        app.vtrr.engine.client.close()
        app.app.close()


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cut", [False, True], ids=["at once", "after the replica was cut off"])
@pytest.mark.parametrize("level", [None, "replicated"], ids=["plain", "replicated"])
def test_what_a_failover_loses(level, cut):
    """Items whose enqueue returned and that the new primary does not know."""
    lost, acknowledged = [], 0
    for _ in range(FAILOVERS):
        with Watched() as watched:
            engine = Engine(watched.client(), "q", socket_timeout=1)
            durability = Durability(level, 0.5) if level else None
            producer = Producer(
                lambda i, e=engine, d=durability: e.enqueue("p", [NewItem(i, b"x")], durability=d)
            )
            producer.start()
            eventually(lambda p=producer: len(p.acknowledged) > 300, 20, "enqueued items")
            if cut:
                cut_off(watched, producer)
            watched.primary.kill()
            producer.end()
            os.kill(watched.replica.pid, SIGCONT)
            watched.wait_over()
            with watched.replica.client() as client:
                kept = {item_id.decode() for item_id in client.hkeys("vtrr:q:task")}
            lost.append(len(set(producer.acknowledged) - kept))
            acknowledged += len(producer.acknowledged)
            engine.client.close()
    print(
        f"failover {'with the replica cut off 0.2 s before' if cut else 'at once'}, "
        f"durability={level}: lost {lost} of {acknowledged} acknowledged items in all"
    )
    if level:
        assert lost == [0] * FAILOVERS


def cut_off(watched, producer):
    """Let the primary go on for a moment without its replica."""
    os.kill(watched.replica.pid, SIGSTOP)
    with watched.primary.client() as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "replica")
    producer.over.wait(CUT_SECONDS)
