"""Metrics of queues for Prometheus (extra ``metrics``) and OpenTelemetry (extra ``otel``)."""

from __future__ import annotations

from vtrr_queue.metrics.prometheus import Collector, MetricsServer, serve_metrics

__all__ = ["Collector", "MetricsServer", "serve_metrics"]
