"""A real Chromium for tests, driven by its own debugging protocol.

Invariants: no profile, no extension, no network but this machine; the browser ends with the test
run; every console error and every refused file is kept, so that a test can demand there were none.
"""

import base64
import itertools
import json
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from websockets.sync.client import connect

from tests.processes import spawn
from tests.waiting import eventually

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--mute-audio",
    "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--hide-scrollbars", "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)  # fmt: skip
ANSWER_SECONDS = 20.0


def find_chromium() -> str | None:
    """Return the path of an installed Chromium or Chrome."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One Chromium process; pages are opened in it one after the other."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="vtrr-chromium-"))
        binary = find_chromium()
        assert binary, "no Chromium"
        with (self.folder / "log").open("wb") as log:
            self._process = spawn(
                [binary, *FLAGS, f"--user-data-dir={self.folder / 'profile'}", "about:blank"],
                stdout=log, stderr=log,
            )  # fmt: skip
        port_file = self.folder / "profile" / "DevToolsActivePort"
        eventually(lambda: port_file.exists() and port_file.read_text().count("\n"), 30, "Chromium")
        port, path = port_file.read_text().split("\n")[:2]
        self._stack = ExitStack()
        address = f"ws://127.0.0.1:{port}{path}"
        self._socket = self._stack.enter_context(connect(address, max_size=None))
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._process.terminate()
        self._process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method: str, session: str = "", **parameters: Any) -> Any:
        """Send a command and return its result; what happens meanwhile goes to `events`."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        self._socket.send(json.dumps(message | ({"sessionId": session} if session else {})))
        while True:
            heard = json.loads(self._socket.recv(ANSWER_SECONDS))
            if heard.get("id") != number:
                self.events.append(heard)
            elif "error" in heard:
                raise AssertionError(f"{method}: {heard['error']}")
            else:
                return heard["result"]

    @contextmanager
    def page(self, url: str, *, width: int = 1200, height: int = 900, dark: bool = False):
        """Open a page in a window of this size; no error may have happened when it is closed."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, attached["sessionId"])
        self.events.clear()
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 500)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        page.call("Emulation.setEmulatedMedia", features=[scheme, still])
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        page.call("Page.bringToFront")  # the pointer hovers over nothing in a page behind
        page.call("Page.navigate", url=url)
        try:
            yield page
            assert page.errors() == []
        finally:
            self.call("Target.disposeBrowserContext", browserContextId=context)


class Page:
    """An open page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command to this page."""
        return self._browser.call(method, self._session, **parameters)

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression, promises awaited."""
        got = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                        awaitPromise=True, userGesture=True)  # fmt: skip
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def texts(self, selector: str) -> list[str]:
        """Text of every element that is shown, as it is read."""
        return self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})]"
            ".filter(e => e.checkVisibility()).map(e => e.innerText.trim())"
        )

    def wait_text(self, selector: str, text: str, timeout: float = 10) -> None:
        """Wait until an element that is shown has exactly this text."""
        eventually(lambda: text in self.texts(selector), timeout, f"{selector} says {text!r}")

    def click(self, selector: str, text: str | None = None) -> None:
        """Press the middle of the first element that is shown, with a real pointer."""
        wanted = "" if text is None else f" && e.innerText.trim() === {json.dumps(text)}"
        place = eventually(lambda: self.run(f"""(() => {{
            const e = [...document.querySelectorAll({json.dumps(selector)})]
                .find(e => e.checkVisibility(){wanted});
            if (!e) return null;
            e.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = e.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()"""), 10, f"{selector} to press")  # fmt: skip
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1],
                      button="left", clickCount=1)  # fmt: skip

    def point_at(self, selector: str) -> None:
        """Move the pointer to the middle of the first such element."""
        place = self.run(f"""(box => [box.x + box.width / 2, box.y + box.height / 2])
            (document.querySelector({json.dumps(selector)}).getBoundingClientRect())""")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])

    def point_away(self) -> None:
        """Move the pointer to the corner."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def screenshot(self, path: Path) -> None:
        """Save the whole page as a PNG."""
        got = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(got["data"]))

    def forget_errors(self) -> None:
        """Forget the errors so far: they were wanted."""
        self.run("1")
        self._browser.events.clear()

    def errors(self) -> list[str]:
        """Errors of scripts, the console, the security policy and of failed requests so far."""
        self.run("1")  # hear what has happened
        found = []
        for event in self._browser.events:
            about = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(about["exceptionDetails"]))
            elif event.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
                found.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
            elif event.get("method") == "Runtime.consoleAPICalled" and about["type"] == "error":
                found.append(str(about["args"]))
        return found
