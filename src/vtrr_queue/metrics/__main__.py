"""Entry of ``python -m vtrr_queue.metrics``."""

from __future__ import annotations

import sys

from vtrr_queue.metrics.command import main

if __name__ == "__main__":
    sys.exit(main())
