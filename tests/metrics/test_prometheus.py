"""What Prometheus reads about a queue."""

import json
import re
import shutil
import subprocess
import sys

import httpx
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tests.docs.blocks import ROOT
from tests.metrics.scraping import read, samples, scrape
from tests.processes import spawn
from tests.queues import audited_engine, items
from tests.waiting import eventually
from vtrr_queue.errors import ArgumentError, ArgumentTypeError
from vtrr_queue.metrics import Collector, serve_metrics
from vtrr_queue.metrics.readings import METRICS
from vtrr_queue.stats import Tally

UNITS = ("_items", "_partitions", "_seconds", "_ratio", "_items_total")
BARE = {"vtrr_queue_up", "vtrr_queue_paused", "vtrr_queue_outstanding_triggers"}


@pytest.fixture
def busy(engine):
    """Something everywhere, and one more of each total than of the one before it."""
    engine.enqueue("acme", items(*(f"a{number}" for number in range(40))))
    engine.enqueue("bolt", items("b1", "b2", "b3"))
    engine.enqueue("corner", items("c1"))
    engine.enqueue("later", items("l1", delay_ms=60_000))
    engine.set_policy("bolt", share=2.0)
    leases = engine.lease(count=4).items
    engine.bury(leases[0].item_id, leases[0].token, "it raised")
    tally = Tally()
    for _ in range(7):
        tally.served(0.2)
        tally.charged("acme", 3.0)
        tally.charged("bolt", 1.0)
    for name, count in {"acked": 5, "retried": 2}.items():
        for _ in range(count):
            tally.ended(name, 1.5, failed=name == "acked")
    engine.count(tally)
    return engine


def test_the_queue_has_its_numbers(busy):
    """Without labels of partitions, unless somebody asks for them."""
    found = {name: value for (name, labels), value in read(busy).items() if labels == "queue=files"}
    age = found.pop("vtrr_queue_oldest_waiting_seconds")
    assert 0 <= age < 30
    expected = {
        "up": 1, "waiting_items": 40, "delayed_items": 1, "running_items": 3, "dead_items": 1,
        "active_partitions": 3, "servable_partitions": 2, "paused": 0, "outstanding_triggers": 0,
        "served_items_total": 7, "acked_items_total": 5, "failed_items_total": 5,
        "retried_items_total": 2, "released_items_total": 0, "timed_out_items_total": 0,
        "died_items_total": 0, "waiting_time_seconds_count": 7, "run_time_seconds_count": 7,
        "waiting_time_seconds_sum": pytest.approx(1.4),
        "run_time_seconds_sum": pytest.approx(10.5),
    }  # fmt: skip
    assert found == {f"vtrr_queue_{name}": value for name, value in expected.items()}
    assert not any("partition=" in labels for _, labels in read(busy))


def test_histograms_are_cumulative(busy):
    """As Prometheus wants them, with a bucket that has no bound."""
    found = {labels: value for (name, labels), value in read(busy).items()
             if name == "vtrr_queue_waiting_time_seconds_bucket"}  # fmt: skip
    assert found["le=0.1,queue=files"] == 0
    assert found["le=0.25,queue=files"] == found["le=+Inf,queue=files"] == 7
    assert len(found) == 21


def of_partitions(found, name):
    """Mapping partition -> value of a metric."""
    return {labels.split("partition=")[1].split(",")[0]: value for (metric, labels), value
            in found.items() if metric == f"vtrr_queue_partition_{name}"}  # fmt: skip


def test_the_largest_partitions_have_labels_and_the_rest_is_summed(busy):
    found = read(busy, top=1)
    waiting, running = of_partitions(found, "waiting_items"), of_partitions(found, "running_items")
    total = {"waiting": 40, "running": 3}
    assert waiting.keys() == running.keys() == {"acme", "other"}
    assert waiting["acme"] == pytest.approx(38, abs=1)
    assert (sum(waiting.values()), sum(running.values())) == (total["waiting"], total["running"])
    for name in ("share_used_ratio", "share_due_ratio"):
        parts = of_partitions(found, name)
        assert parts.keys() == {"acme", "other"}
        assert sum(parts.values()) == pytest.approx(1)
    assert of_partitions(found, "share_used_ratio")["acme"] == pytest.approx(0.75)
    assert of_partitions(found, "oldest_waiting_seconds").keys() == {"acme"}


def test_named_partitions_have_labels(busy):
    """Also when they are small; one that has no work has no numbers."""
    found = read(busy, partitions=["bolt", "nobody"])
    assert of_partitions(found, "waiting_items").keys() == {"bolt", "other"}
    assert of_partitions(found, "share_used_ratio")["bolt"] == pytest.approx(0.25)
    assert sum(of_partitions(found, "waiting_items").values()) == 40


def test_a_partition_called_other_is_among_the_others(engine):
    """Its numbers are not lost, and no label stands twice."""
    engine.enqueue("other", items("o1", "o2", "o3"))
    engine.enqueue("acme", items("a1"))
    assert of_partitions(read(engine, top=5), "waiting_items") == {"acme": 1, "other": 3}


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "{x=y}", "🐙", "שלום"])
def test_names_are_data(engine, name):
    """They come back from the parser as they were."""
    engine.enqueue(name, items("a1"))
    text = scrape(engine, top=5)
    labels = [sample.labels["partition"] for family in text_string_to_metric_families(text)
              if family.name == "vtrr_queue_partition_waiting_items"
              for sample in family.samples]  # fmt: skip
    assert labels == [name, "other"]


def test_names_and_units_are_those_of_the_conventions(busy):
    """Snake case, base units at the end, `_total` on counters only, a help text for each."""
    families = list(text_string_to_metric_families(scrape(busy, top=3)))
    assert len(families) == len(METRICS)
    for family in families:
        assert re.fullmatch(r"vtrr_queue(_[a-z]+)+", family.name)
        assert family.documentation.endswith(".")
        assert family.name in BARE or family.name.endswith(UNITS)
        totals = [sample.name.endswith("_total") for sample in family.samples]
        assert all(totals) if family.type == "counter" else not any(totals)


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool: apt-get install prometheus")
def test_promtool_has_nothing_to_say(busy):
    checked = subprocess.run(["promtool", "check", "metrics"], input=scrape(busy, top=3),
                             capture_output=True, text=True, check=False)  # fmt: skip
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_one_scrape_says_when_redis_is_silent(engine, server):
    """The exporter stays up and says that the queue is down."""
    engine.enqueue("acme", items("a1"))
    server.stop()
    try:
        assert read(engine) == {("vtrr_queue_up", "queue=files"): 0}
    finally:
        server.start()


def test_registering_does_not_talk_to_redis(engine):
    """An app may do it when it is imported."""
    CollectorRegistry().register(Collector(engine))
    assert engine.client.calls == 0


def test_several_queues_are_told_apart(engine, redis_client):
    with audited_engine(redis_client, "mail") as mail:
        engine.enqueue("acme", items("a1"))
        mail.enqueue("acme", items("a1", "a2"))
        found = read(engine, mail)
    waiting = [found["vtrr_queue_waiting_items", f"queue={name}"] for name in ("files", "mail")]
    assert waiting == [1, 2]


@pytest.mark.parametrize(
    ("queues", "options", "error", "named"),
    [
        (0, {}, ArgumentError, "queues"),
        (2, {}, ArgumentError, "queues"),
        (1, {"top": -1}, ArgumentError, "top"),
        (1, {"top": 1001}, ArgumentError, "top"),
        (1, {"top": True}, ArgumentTypeError, "top"),
        (1, {"top": 1, "partitions": ["a"]}, ArgumentError, "top"),
        (1, {"partitions": "acme"}, ArgumentTypeError, "partitions"),
        (1, {"partitions": [1]}, ArgumentTypeError, "partitions"),
        (1, {"partitions": [f"{n}" for n in range(1001)]}, ArgumentError, "partitions"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(engine, queues, options, error, named):
    with pytest.raises(error, match=named):
        Collector(*[engine] * queues, **options)


def test_a_server_of_metrics_can_be_closed(engine):
    engine.enqueue("acme", items("a1"))
    with serve_metrics(engine, port=0) as server:
        address = f"http://127.0.0.1:{server.port}/metrics"
        assert samples(httpx.get(address).text)["vtrr_queue_waiting_items", "queue=files"] == 1
    with pytest.raises(httpx.TransportError):
        httpx.get(address)


def test_it_runs_alone(engine, server, tmp_path):
    """`python -m vtrr_queue.metrics` says where, and ends when it is told to."""
    engine.enqueue("acme", items("a1", "a2"))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "vtrr_queue.metrics", "--redis", server.url(), "--name",
               "files", "--port", "0", "--top", "3"]  # fmt: skip
    with out.open("wb") as stdout:
        process = spawn(command, stdout=stdout)
    try:
        address = eventually(lambda: out.read_text().strip(), 20, "its address")
        found = samples(httpx.get(address).text)
        assert of_partitions(found, "waiting_items") == {"acme": 2, "other": 0}
        process.terminate()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--redis", "redis://localhost"], "--name"),
        (["--redis", "redis://localhost", "--name", "a", "--top", "-1"], "top"),
        (["--redis", "redis://localhost", "--name", "a", "--port", "99999999"], "port"),
    ],
)
def test_a_wrong_option_is_refused(arguments, named, capsys):
    from vtrr_queue.metrics.command import main  # noqa: PLC0415 - it installs nothing here

    assert main(arguments) == 2
    assert named in capsys.readouterr().err


def test_a_missing_extra_says_what_to_install():
    """Each way in names the package and what installs it."""
    for package, code in {
        "prometheus_client": "runpy.run_module('vtrr_queue.metrics', run_name='__main__')",
        "prometheus_client.core": "from vtrr_queue.metrics import serve_metrics",
        "opentelemetry": "from vtrr_queue.metrics import observe",
    }.items():
        blocked = f"import runpy, sys; sys.modules[{package!r}] = None; {code}"
        ended = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True,
                               check=False)  # fmt: skip
        extra = "otel" if package == "opentelemetry" else "metrics"
        assert ended.returncode == 1
        assert f"pip install 'vtrr-queue[{extra}]'" in ended.stderr.splitlines()[-1]


def test_every_metric_of_the_dashboard_exists(busy):
    """docs/grafana.json asks for nothing that the exporter does not say, and leaves nothing out."""
    dashboard = json.loads((ROOT / "docs" / "grafana.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    asked = {name for text in expressions for name in re.findall(r"vtrr_queue_\w+", text)}
    exported = {name for name, _ in read(busy, top=3)}
    assert asked <= exported
    unused = {name for name in exported - asked if not name.endswith(("_sum", "_count"))}
    assert unused == set()
    assert all("$queue" in text for text in expressions)
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_page_lists_every_metric(busy):
    """docs/metrics.md has each in its table, and no other."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    listed = re.findall(r"^\| `(vtrr_queue_\w+)`", page, re.MULTILINE)
    names = [family.name + ("_total" if family.type == "counter" else "")
             for family in text_string_to_metric_families(scrape(busy, top=3))]  # fmt: skip
    assert sorted(listed) == sorted(names)
