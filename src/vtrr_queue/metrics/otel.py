"""The same metrics as observable instruments of OpenTelemetry."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from opentelemetry.metrics import Observation, get_meter

from vtrr_queue.metrics.readings import METRICS, Readings
from vtrr_queue.stats import BOUNDS, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.metrics import CallbackOptions, MeterProvider

    from vtrr_queue.engine import Engine
    from vtrr_queue.metrics.readings import Metric, Queue

UNITS = {
    "items": "{item}", "partitions": "{partition}", "seconds": "s", "ratio": "1", "": "1",
}  # fmt: skip
"""As UCUM, which OpenTelemetry uses, has them."""


def observe(
    *queues: Queue | Engine,
    meter_provider: MeterProvider | None = None,
    top: int = 0,
    partitions: Iterable[str] = (),
) -> None:
    """Make the instruments; they read Redis when a reader of the provider collects.

    Args:
        *queues: A :class:`~vtrr_queue.VTRRQueue` each, or an engine.
        meter_provider: Whose meter makes them; the global one when None.
        top: See :class:`~vtrr_queue.metrics.Collector`.
        partitions: See :class:`~vtrr_queue.metrics.Collector`.

    Raises:
        ArgumentError: A value is out of range.
        ArgumentTypeError: A type is wrong.
    """
    readings = Readings(queues, top=top, partitions=partitions)
    meter = get_meter("vtrr_queue", meter_provider=meter_provider)
    for metric in METRICS:
        name, unit = f"vtrr.queue.{metric.name}", UNITS[metric.unit]
        counter, callback = meter.create_observable_counter, partial(_observations, readings)
        if metric.kind == "histogram":
            # There are no observable histograms: their parts are counters, as Prometheus has them.
            for part, its_unit in {"bucket": "1", "sum": unit, "count": "1"}.items():
                counter(f"{name}.{part}", [partial(callback, metric, part)], its_unit, metric.about)
        elif metric.kind == "counter":
            counter(name, [partial(callback, metric, "")], unit, metric.about)
        else:
            gauge = [partial(callback, metric, "")]
            meter.create_observable_gauge(name, gauge, unit, metric.about)


def _observations(
    readings: Readings, metric: Metric, part: str, _options: CallbackOptions
) -> list[Observation]:
    return [
        Observation(value, {**dict(zip(metric.labels, figure.labels, strict=True)), **more})
        for figure in readings.take()
        if figure.metric == metric.name
        for value, more in _values(figure.value, part)
    ]


def _values(value: float | Histogram, part: str) -> list[tuple[float, dict[str, str]]]:
    """One number, or those of a part of a histogram, with the labels they need."""
    if not isinstance(value, Histogram):
        return [(value, {})]
    if part == "bucket":
        bounds = [*(repr(bound) for bound in BOUNDS), "+Inf"]
        cumulated = zip(accumulate(value.counts), bounds, strict=True)
        return [(count, {"le": bound}) for count, bound in cumulated]
    return [(value.sum_seconds if part == "sum" else value.count, {})]
