"""Entry of ``python -m vtrr_queue.web``: says what to install when the extra is missing."""

from __future__ import annotations

import sys

try:
    from vtrr_queue.web.command import main
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] not in {"starlette", "uvicorn"}:
        raise
    sys.exit(
        f"The page needs the package {missing.name!r}, which is not installed. Install it with:\n"
        "    pip install 'vtrr-queue[web]'",
    )

if __name__ == "__main__":
    sys.exit(main())
