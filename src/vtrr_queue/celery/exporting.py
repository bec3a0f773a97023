"""Lets a worker export metrics: ``celery -A app worker --vtrr-metrics-port 9880``.

Invariants: off unless asked for; what goes wrong here costs one line of the log, never the worker;
only the main process listens.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click
from celery import bootsteps, signals
from celery.utils.log import get_logger

if TYPE_CHECKING:
    from vtrr_queue.metrics import MetricsServer

logger = get_logger(__name__)

HOST = "127.0.0.1"
TOP_MAX = 1000
"""Most partitions with labels, as :class:`~vtrr_queue.metrics.Collector` has it."""


class MetricsStep(bootsteps.StartStopStep):
    """Worker bootstep that serves the metrics of all queues of the app while the worker runs.

    Args:
        w: Celery's WorkController.
        vtrr_metrics_port: Where to listen; None for not at all.
        vtrr_metrics_host: Address to listen on.
        vtrr_metrics_top: How many partitions have labels.
        **kwargs: Celery's own options.
    """

    label = "VTRR metrics"
    requires = ("celery.worker.components:Pool",)  # its processes are made before we listen

    def __init__(
        self,
        w: Any,
        vtrr_metrics_port: int | None = None,
        vtrr_metrics_host: str = HOST,
        vtrr_metrics_top: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(w, **kwargs)
        self.enabled = vtrr_metrics_port is not None
        self._port, self._host = vtrr_metrics_port or 0, vtrr_metrics_host
        self._top = vtrr_metrics_top
        self._server: MetricsServer | None = None
        self._pid = 0

    def start(self, w: Any) -> None:
        """Celery's hook: the pool is there, the consumer comes next."""
        self._pid = os.getpid()
        try:
            from vtrr_queue.metrics import serve_metrics  # noqa: PLC0415 - asked for only here

            self._server = serve_metrics(
                *w.app.vtrr_queues.values(), port=self._port, host=self._host, top=self._top
            )
        except ModuleNotFoundError as exc:
            logger.error("no metrics: %s", exc)  # noqa: TRY400 - the one line says it all
        except (OSError, UnicodeError) as exc:
            logger.error(  # noqa: TRY400
                "no metrics: cannot listen on %s:%d: %s", self._host, self._port, exc
            )
        else:
            signals.worker_process_init.connect(self._leave, weak=False)
            logger.info("metrics on http://%s:%d/metrics", self._host, self._server.port)

    def stop(self, w: Any) -> None:
        """Celery's hook: the worker ends."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def terminate(self, w: Any) -> None:
        """Celery's hook: the worker ends at once."""
        self.stop(w)

    def _leave(self, **_: Any) -> None:
        """A process that the pool adds later has inherited the port; solo calls this, too."""
        if self._server is not None and os.getpid() != self._pid:
            self._server.leave()


def install(app: Any) -> None:
    """Add the options and the bootstep to every worker of the app, once."""
    if MetricsStep in app.steps["worker"]:
        return
    app.steps["worker"].add(MetricsStep)
    app.user_options["worker"].update([
        click.Option(
            ["--vtrr-metrics-port"], type=click.IntRange(0, 65_535), metavar="PORT",
            help="Export metrics of the vtrr-queue queues for Prometheus on this port."),
        click.Option(
            ["--vtrr-metrics-host"], default=HOST, show_default=True, metavar="HOST",
            help="Address that --vtrr-metrics-port listens on."),
        click.Option(
            ["--vtrr-metrics-top"], type=click.IntRange(0, TOP_MAX), default=0, show_default=True,
            metavar="K", help="Label the K partitions with the largest backlogs."),
    ])  # fmt: skip
