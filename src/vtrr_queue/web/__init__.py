"""A page that shows who waits, how long and why: one small ASGI app, needs the extra ``web``."""

from __future__ import annotations

try:
    from vtrr_queue.web.app import create_app
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] != "starlette":
        raise
    needed = "the page needs starlette, install it with: pip install 'vtrr-queue[web]'"
    raise ModuleNotFoundError(needed, name="starlette") from None

__all__ = ["create_app"]
