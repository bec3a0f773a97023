"""Entry of ``python -m vtrr_queue.migrate``."""

from __future__ import annotations

import sys

from vtrr_queue.migrate.command import main

if __name__ == "__main__":
    sys.exit(main())
