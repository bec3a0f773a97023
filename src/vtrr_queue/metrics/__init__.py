"""Metrics of queues for Prometheus (extra ``metrics``) and OpenTelemetry (extra ``otel``).

Each needs a package of its own and not the other's, so the public names are loaded when they are
asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vtrr_queue.metrics.otel import observe
    from vtrr_queue.metrics.prometheus import Collector, MetricsServer, serve_metrics

__all__ = ["Collector", "MetricsServer", "observe", "serve_metrics"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    home, extra = ("otel", "otel") if name == "observe" else ("prometheus", "metrics")
    try:
        return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("vtrr_queue"):
            raise
        message = f"{name} needs {missing.name}: pip install 'vtrr-queue[{extra}]'"
        raise ModuleNotFoundError(message, name=missing.name) from None
