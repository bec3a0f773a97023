"""Entry of ``python -m vtrr_queue.web``: says what to install when the extra is missing."""

from __future__ import annotations

import sys

try:
    from vtrr_queue.web.command import main
except ModuleNotFoundError as missing:
    if missing.name != "uvicorn":
        raise
    sys.exit("the page needs uvicorn, install it with: pip install 'vtrr-queue[web]'")

if __name__ == "__main__":
    sys.exit(main())
