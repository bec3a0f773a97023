"""Real workers on a cluster: a primary dies, its replica takes over, they go on."""

import json
from collections import Counter

import pytest

from tests.clusters import Cluster
from tests.producers import Producer
from tests.servers import Server
from tests.stage import DISPATCHES, load_app
from tests.waiting import eventually
from tests.workers import Worker
from vtrr_queue.inspector import Inspector

KEY = "vtrr:{clustered}:task"


@pytest.mark.slow
@pytest.mark.parametrize("dispatch", DISPATCHES)
@pytest.mark.timeout(120)
def test_workers_go_on_after_a_primary_has_died(tmp_path, dispatch):
    """Every item whose enqueue a replica had runs; one that runs twice was counted."""
    with Cluster() as cluster, Server() as broker:
        env = {"BROKER_URL": broker.url(), "DISPATCH": dispatch,
               "NODES": json.dumps(cluster.addresses)}  # fmt: skip
        shard = cluster.shard_of(KEY)
        app = load_app("clustered", env)

        def enqueue(item_id):
            app.act.queue(f"p{len(item_id)}", [{"id": item_id}], durability="replicated")
            producer.over.wait(0.005)

        producer = Producer(enqueue)
        worker = Worker("clustered", log_path=tmp_path / "w.log", env=env, queues=["clustered"])
        with worker:
            producer.start()
            eventually(lambda: app.traces.count() > 50, 20, "runs")
            cluster.primaries[shard].kill()
            cluster.wait_over(shard)
            before = app.traces.count()
            eventually(lambda: app.traces.count() > before + 10, 30, "runs after the failover")
            producer.end()
            with cluster.replicas[shard].client() as client:
                eventually(lambda: not client.exists(KEY), 40, "an empty queue")
            assert Inspector(app.vtrr.engine).audit() == []
        runs, ends = app.traces.runs(), Counter(app.traces.ends())
        assert set(producer.acknowledged) <= ends.keys()
        timeouts = Counter(run["id"] for run in runs if run["timeouts"])
        assert all(count <= 1 + timeouts[item_id] for item_id, count in ends.items())
        app.vtrr.engine.client.close()
        app.app.close()
