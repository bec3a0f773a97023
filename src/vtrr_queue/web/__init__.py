"""A page that shows who waits, how long and why: one small ASGI app, needs the extra ``web``."""

from __future__ import annotations

from vtrr_queue.web.app import create_app

__all__ = ["create_app"]
