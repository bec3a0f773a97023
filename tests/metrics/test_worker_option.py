"""`celery -A app worker --vtrr-metrics-port` exports the queues of the app."""

import subprocess
import sys

import httpx
import psutil
import pytest

from tests.metrics.scraping import samples
from tests.servers import Server, free_port
from tests.waiting import eventually
from tests.workers import Worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
MODULE = """
import redis
from celery import Celery
from vtrr_queue import VTRRQueue

app = Celery("metered", broker="redis://{address}/0")
client = redis.Redis.from_url("redis://{address}/1")
files = VTRRQueue(client, app, name="files")
mails = VTRRQueue(client, app, name="mails")

@files.task
def process_file(self, path):
    print("processing", path)
"""


@pytest.fixture
def start(tmp_path):
    """Start a worker of an app with two queues, `start(*arguments)`."""
    workers = []
    with Server() as server:
        (tmp_path / "metered.py").write_text(MODULE.format(address=f"{server.host}:{server.port}"))

        def start(*args, env=None, **options):
            log = tmp_path / f"worker{len(workers)}.log"
            env = {"PYTHONPATH": str(tmp_path), **(env or {})}
            worker = Worker("metered", cwd=tmp_path, env=env, args=args, log_path=log,
                            **{"concurrency": 1, "queues": ["vtrr_queue"], **options})  # fmt: skip
            workers.append(worker)
            return worker.__enter__()

        try:
            yield start
        finally:
            for worker in workers:
                worker.kill_group()


def enqueue(folder, count):
    code = (
        f"from metered import process_file; process_file.queue('acme', [{{'args': [1]}}] * {count})"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=60)


def figures(port, metric="vtrr_queue_acked_items_total"):
    """Mapping labels -> value of a metric."""
    found = samples(httpx.get(f"http://127.0.0.1:{port}/metrics").text)
    return {labels: value for (name, labels), value in found.items() if name == metric}


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_a_worker_exports_every_queue_of_its_app(start, tmp_path, pool):
    """It says where, and frees the port when it ends."""
    port = free_port()
    worker = start("--vtrr-metrics-port", str(port), pool=pool)
    assert figures(port, "vtrr_queue_up") == {"queue=files": 1, "queue=mails": 1}
    enqueue(tmp_path, 3)
    eventually(lambda: figures(port).get("queue=files") == 3, 20, "three items are counted")
    assert f"http://127.0.0.1:{port}/metrics" in worker.log()
    assert worker.stop() == 0
    with pytest.raises(httpx.TransportError):
        figures(port)
    assert "Traceback" not in worker.log()


def test_it_labels_partitions_and_listens_where_it_is_told(start, tmp_path):
    port = free_port()
    start("--vtrr-metrics-port", str(port), "--vtrr-metrics-top", "5",
          "--vtrr-metrics-host", "localhost")  # fmt: skip
    found = figures(port, "vtrr_queue_partition_waiting_items")
    assert set(found) == {"partition=other,queue=files", "partition=other,queue=mails"}


def test_a_busy_port_costs_one_line(start, tmp_path):
    """The second worker of a host works on without metrics of its own."""
    port = free_port()
    first = start("--vtrr-metrics-port", str(port))
    second = start("--vtrr-metrics-port", str(port))
    (line,) = [line for line in second.log().splitlines() if "metrics" in line]
    assert "ERROR" in line
    assert f"127.0.0.1:{port}" in line
    assert "Address already in use" in line
    assert "Traceback" not in second.log()
    assert first.stop() == 0
    enqueue(tmp_path, 2)
    eventually(lambda: second.log().count("processing") == 2, 20, "two items are run")


def test_a_missing_package_costs_one_line(start, tmp_path):
    """It names what to install."""
    (tmp_path / "prometheus_client.py").write_text(
        "raise ModuleNotFoundError('none', name='prometheus_client')"
    )
    worker = start("--vtrr-metrics-port", str(free_port()))
    (line,) = [line for line in worker.log().splitlines() if "metrics" in line]
    assert "ERROR" in line
    assert "pip install 'vtrr-queue[metrics]'" in line
    assert "Traceback" not in worker.log()


def test_pool_processes_do_not_keep_the_port(start, tmp_path):
    """Else it would be busy after the worker was killed, while a run goes on."""
    port = free_port()
    worker = start("--vtrr-metrics-port", str(port), "--max-tasks-per-child", "1")
    before = set(worker.children())
    enqueue(tmp_path, 1)
    child = eventually(lambda: set(worker.children()) - before, 20, "a new process").pop()
    listening = [
        each for each in psutil.Process(worker.pid).net_connections()
        if each.status == "LISTEN" and each.laddr.port == port
    ]  # fmt: skip
    assert len(listening) == 1

    def keeps_nothing():
        found = psutil.Process(child).net_connections()
        return not [each for each in found if each.status == "LISTEN"]

    eventually(keeps_nothing, 10, "the child has closed the port")


def test_without_the_option_nothing_listens(start):
    worker = start()
    assert "metrics" not in worker.log()
    found = psutil.Process(worker.pid).net_connections()
    assert [each for each in found if each.status == "LISTEN"] == []


@pytest.mark.parametrize(("option", "value"), [("port", "99999"), ("top", "-1"), ("port", "x")])
def test_a_wrong_value_is_refused_by_name(tmp_path, option, value):
    """Before the worker starts, as Celery's own options are."""
    (tmp_path / "metered.py").write_text(MODULE.format(address="localhost:1"))
    command = [sys.executable, "-m", "celery", "-A", "metered", "worker",
               f"--vtrr-metrics-{option}", value]  # fmt: skip
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60,
                           check=False)  # fmt: skip
    assert ended.returncode == 2
    assert f"--vtrr-metrics-{option}" in ended.stderr
    assert value in ended.stderr


def test_the_help_of_the_worker_lists_it(tmp_path):
    (tmp_path / "metered.py").write_text(MODULE.format(address="localhost:1"))
    command = [sys.executable, "-m", "celery", "-A", "metered", "worker", "--help"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60,
                           check=True)  # fmt: skip
    assert ended.stdout.count("--vtrr-metrics-port PORT") == 1
