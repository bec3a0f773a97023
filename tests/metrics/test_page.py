"""docs/metrics.md works as it says: in a worker, in a registry of the app's, in OpenTelemetry."""

import os
import subprocess
import sys

import httpx
import pytest

from tests.docs.blocks import ROOT, read_page
from tests.metrics.scraping import samples
from tests.servers import Server, free_port
from tests.waiting import eventually
from tests.workers import Worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
PAGE = read_page(ROOT / "docs" / "metrics.md")
QUEUE = "queue=files"

ENQUEUE = "from tasks import process_file; process_file.queue('acme', [{'args': ['a']}] * 3)"
OTHERS = """
import telemetry, registry
from prometheus_client import REGISTRY
print(REGISTRY.get_sample_value("vtrr_queue_waiting_items", {"queue": "files"}))
"""


@pytest.fixture
def folder(tmp_path):
    """The modules of the page, with a server and a port of their own."""
    with Server() as server:
        PAGE.write(tmp_path, f"{server.host}:{server.port}")
        yield tmp_path


def python(folder, code):
    """Run Python there, warnings are errors; what it printed."""
    ended = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=folder, timeout=60,
                           capture_output=True, text=True, check=False)  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize("way", [0, 1], ids=["by option", "in code"])
def test_a_worker_exports_what_it_does(folder, way):
    port = free_port()
    (module, _, *rest) = PAGE.workers[way]
    rest = [str(port) if word == "9880" else word for word in rest]
    assert (str(port) in rest) == (way == 0)
    env = {**os.environ, "PYTHONPATH": str(folder), "METRICS_PORT": str(port)}
    with Worker(module, cwd=folder, env=env, args=rest, concurrency=1,
                log_path=folder / "worker.log") as worker:  # fmt: skip
        python(folder, ENQUEUE)

        def served():
            found = samples(httpx.get(f"http://127.0.0.1:{port}/metrics").text)
            return found.get(("vtrr_queue_acked_items_total", QUEUE)) == 3 and found

        found = eventually(served, 20, "three items are counted")
        assert found["vtrr_queue_waiting_items", QUEUE] == 0
        if way == 1:
            used = found["vtrr_queue_partition_share_used_ratio", f"partition=other,{QUEUE}"]
            assert used == 1
        assert "Traceback" not in worker.log()


def test_a_registry_of_the_app_and_the_global_meter(folder):
    python(folder, ENQUEUE)
    assert float(python(folder, OTHERS)) == 3
