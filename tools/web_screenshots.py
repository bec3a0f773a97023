"""Take the pictures of docs/web.md: a flooding tenant beside small ones, in a real browser.

``python -m tools.web_screenshots`` from the root of the repository; needs Chromium.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.queues import items
from tests.servers import Server
from tests.web.browser import Browser, Page
from tests.web.serving import served
from vtrr_queue.engine import Engine
from vtrr_queue.web import create_app

if TYPE_CHECKING:
    from vtrr_queue.model import Lease

DOCS = Path(__file__).parents[1] / "docs"
SECONDS = 45
WINDOWS = {
    "light": {"height": 1000},
    "dark": {"height": 1000, "dark": True},
    "phone": {"width": 380, "height": 800},
}
SMALL = {"bolt": 5, "corner-shop": 3, "dinner & co": 4, "לקוח גדול": 2}
BUSY = 12
CHANCE = 0.09


def main() -> None:
    """Play the scene and take the pictures."""
    with Server() as server, server.client() as client, Browser() as browser:
        engine, held = Engine(client, "files"), []
        engine.set_policy("corner-shop", share=2.0)
        bury(engine)
        engine.enqueue("acme", items(*(f"a{number}" for number in range(2500))))
        engine.enqueue("night-import", items(*(f"n{number}" for number in range(6))))
        engine.set_policy("night-import", paused=True)
        with served(create_app(engine, token="x" * 20, refresh_seconds=0.5)) as url:
            with browser.page(url, height=1000) as page:  # somebody looks, so there is a line
                play(engine, page, held)
                page.screenshot(DOCS / "web-light.png")
            for name in ("dark", "phone"):
                with browser.page(url, **WINDOWS[name]) as page:
                    page.wait_text("#live", "live")
                    play(engine, page, held, 4)
                    page.screenshot(DOCS / f"web-{name}.png")
        engine.client.close()


def bury(engine: Engine) -> None:
    """Make a dead letter."""
    engine.enqueue("bolt", items("invoice-2041"))
    (lease,) = engine.lease().items
    engine.bury(lease.item_id, lease.token, "it raised", exception="ValueError('no such file')")


def play(engine: Engine, page: Page, held: list[Lease], seconds: float = SECONDS) -> None:
    """Serve items as workers do, while small tenants enqueue a few from time to time."""
    ends, chance = time.monotonic() + seconds, random.Random(7)  # noqa: S311 - a scene
    while time.monotonic() < ends:
        for name, count in SMALL.items():
            if chance.random() < CHANCE:
                stamp = time.monotonic_ns()
                fresh = (f"{name}-{stamp}-{number}" for number in range(count))
                engine.enqueue(name, items(*fresh))
        for done in held[:3]:
            engine.ack(done.item_id, done.token)
        del held[:3]
        held += engine.lease(count=BUSY - len(held)).items
        page.run("new Promise(done => setTimeout(done, 150))")


if __name__ == "__main__":
    main()
