"""Metrics in the form of Prometheus, from a collector that reads Redis when it is scraped."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from vtrr_queue.metrics.readings import METRICS, Readings
from vtrr_queue.stats import BOUNDS, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable
    from threading import Thread
    from types import TracebackType
    from typing import Self
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.core import Metric as Family

    from vtrr_queue.engine import Engine
    from vtrr_queue.metrics.readings import Figure, Metric, Queue

PREFIX = "vtrr_queue"
PORT = 9880


class Collector:
    """Give it to a registry: ``REGISTRY.register(Collector(vtrr))``.

    Args:
        *queues: A :class:`~vtrr_queue.VTRRQueue` each, or an engine.
        top: How many partitions have labels, those with the largest backlogs; 0 to 1000.
        partitions: Names of those that have labels, instead of the largest.

    Raises:
        ArgumentError: A value is out of range.
        ArgumentTypeError: A type is wrong.
    """

    def __init__(
        self, *queues: Queue | Engine, top: int = 0, partitions: Iterable[str] = ()
    ) -> None:
        self._readings = Readings(queues, top=top, partitions=partitions)

    def describe(self) -> list[Family]:
        """The metrics without figures; a registry asks when the collector is given to it."""
        return [_family(metric) for metric in METRICS]

    def collect(self) -> list[Family]:
        """The metrics with the figures of now."""
        families = {metric.name: _family(metric) for metric in METRICS}
        for figure in self._readings.take():
            family = families[figure.metric]
            if isinstance(family, HistogramMetricFamily):
                _add_histogram(family, figure)
            else:
                family.add_metric(figure.labels, figure.value)
        return [family for family in families.values() if family.samples]


class MetricsServer:
    """A server of metrics in threads of its own; also a context manager.

    Args:
        server: Accepts requests.
        thread: Serves them.
    """

    def __init__(self, server: WSGIServer, thread: Thread) -> None:
        self._server, self._thread = server, thread

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    def close(self) -> None:
        """Stop and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def leave(self) -> None:
        """In a process that was forked off: give up its copy of the port, which stays open."""
        self._server.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def serve_metrics(
    *queues: Queue | Engine,
    port: int = PORT,
    host: str = "127.0.0.1",
    top: int = 0,
    partitions: Iterable[str] = (),
) -> MetricsServer:
    """Serve the metrics of queues over HTTP, and return while that goes on.

    Args:
        *queues: A :class:`~vtrr_queue.VTRRQueue` each, or an engine.
        port: Where to listen; 0 for any free port.
        host: Address to listen on; ``"0.0.0.0"`` lets other machines in.
        top: See :class:`Collector`.
        partitions: See :class:`Collector`.

    Raises:
        ArgumentError: A value is out of range.
        ArgumentTypeError: A type is wrong.
        OSError: The port is taken.
    """
    registry = CollectorRegistry()
    registry.register(Collector(*queues, top=top, partitions=partitions))
    server, thread = start_http_server(port, host, registry)
    return MetricsServer(server, thread)


FAMILIES = {
    "counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily,
}  # fmt: skip


def _add_histogram(family: HistogramMetricFamily, figure: Figure) -> None:
    histogram = figure.value
    if isinstance(histogram, Histogram):
        bounds = [*(repr(bound) for bound in BOUNDS), "+Inf"]
        buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
        family.add_metric(figure.labels, buckets, histogram.sum_seconds)


def _family(metric: Metric) -> Any:  # noqa: ANN401 - prometheus_client types them in part
    kind = FAMILIES[metric.kind]
    return kind(f"{PREFIX}_{metric.name}", metric.about, labels=metric.labels, unit=metric.unit)
