"""What OpenTelemetry reads about a queue."""

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from tests.queues import items
from vtrr_queue.errors import ArgumentError
from vtrr_queue.metrics import observe
from vtrr_queue.metrics.readings import METRICS
from vtrr_queue.stats import Tally


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def provider(reader):
    provider = MeterProvider(metric_readers=[reader])
    yield provider
    provider.shutdown()


def collected(reader):
    """Mapping name -> (unit, list of (attributes, value))."""
    (resource,) = reader.get_metrics_data().resource_metrics
    return {
        metric.name: (metric.unit, [(dict(p.attributes), p.value) for p in metric.data.data_points])
        for scope in resource.scope_metrics for metric in scope.metrics
    }  # fmt: skip


def test_the_instruments_say_what_prometheus_reads(engine, reader, provider):
    """Under OpenTelemetry's names and units; histograms as the counters of their parts."""
    engine.enqueue("acme", items("a1", "a2", "a3"))
    tally = Tally()
    tally.served(0.2)
    engine.count(tally)
    observe(engine, meter_provider=provider, top=1)
    found = collected(reader)
    assert found["vtrr.queue.waiting"] == ("{item}", [({"queue": "files"}, 3)])
    assert found["vtrr.queue.served"] == ("{item}", [({"queue": "files"}, 1)])
    assert found["vtrr.queue.waiting_time.sum"][0] == "s"
    buckets = {point["le"]: value for point, value in found["vtrr.queue.waiting_time.bucket"][1]}
    assert (buckets["0.1"], buckets["0.25"], buckets["+Inf"]) == (0, 1, 1)
    parts = {point["partition"]: value
             for point, value in found["vtrr.queue.partition_waiting"][1]}  # fmt: skip
    assert parts == {"acme": 3, "other": 0}
    names = {name.removesuffix(part) for name in found for part in (".sum", ".count", ".bucket")
             if name.endswith(part)} | {name for name in found if name.count(".") == 2}  # fmt: skip
    expected = {f"vtrr.queue.{metric.name}" for metric in METRICS}
    assert names == expected


def test_one_collection_reads_redis_once(engine, reader, provider, server):
    """However many instruments there are."""
    engine.enqueue("acme", items("a1"))
    observe(engine, meter_provider=provider)
    with server.client() as client:
        client.config_resetstat()
        collected(reader)
        assert client.info("commandstats")["cmdstat_hlen"]["calls"] < 10


def test_a_wrong_setting_is_refused_by_name(engine, provider):
    with pytest.raises(ArgumentError, match="top"):
        observe(engine, meter_provider=provider, top=-1)
