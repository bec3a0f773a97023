"""Reads what an exporter says, with Prometheus's own parsers."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from vtrr_queue.metrics import Collector


def samples(text):
    """Mapping (name, labels as text) -> value of a page of metrics."""
    return {
        (sample.name, ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))):
            sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }  # fmt: skip


def scrape(*queues, **options):
    """The text of a collector, which both parsers must take."""
    registry = CollectorRegistry()
    registry.register(Collector(*queues, **options))
    list(openmetrics.text_string_to_metric_families(exposition.generate_latest(registry).decode()))
    return generate_latest(registry).decode()


def read(*queues, **options):
    """The samples of a collector."""
    return samples(scrape(*queues, **options))
