"""The same metrics as observable instruments of OpenTelemetry."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from opentelemetry.metrics import Observation, get_meter

from vtrr_queue.metrics.readings import METRICS, Readings

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
        make = (
            meter.create_observable_counter
            if metric.kind == "counter"
            else meter.create_observable_gauge
        )
        make(
            f"vtrr.queue.{metric.name}",
            [partial(_observations, readings, metric)],
            UNITS[metric.unit],
            metric.about,
        )


def _observations(
    readings: Readings, metric: Metric, _options: CallbackOptions
) -> list[Observation]:
    return [
        Observation(figure.value, dict(zip(metric.labels, figure.labels, strict=True)))
        for figure in readings.take()
        if figure.metric == metric.name
    ]
