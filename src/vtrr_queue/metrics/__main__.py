"""Entry of ``python -m vtrr_queue.metrics``: says what to install when the extra is missing."""

from __future__ import annotations

import sys

try:
    from vtrr_queue.metrics.command import main
except ModuleNotFoundError as missing:
    if missing.name != "prometheus_client":
        raise
    sys.exit("metrics need prometheus_client: pip install 'vtrr-queue[metrics]'")

if __name__ == "__main__":
    sys.exit(main())
