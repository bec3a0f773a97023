"""Each example is started as its README says, with real workers, servers and requests."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import spawn
from tests.servers import Server, free_port
from tests.waiting import eventually
from tests.workers import Worker

httpx = pytest.importorskip("httpx", reason="`make compat` installs no web frameworks")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]
EXAMPLES = Path(__file__).parents[2] / "examples"


class Example:
    """One folder of examples, with a Redis of its own."""

    def __init__(self, name, tmp_path, url):
        self.folder, self.tmp_path = EXAMPLES / name, tmp_path
        self.env = {
            **os.environ,
            "REDIS_URL": url,
            "DATABASE": str(tmp_path / "db.sqlite3"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, *arguments):
        """Run Python in its folder, warnings are errors; the lines that it printed."""
        ended = subprocess.run(
            [sys.executable, "-W", "error", *arguments], cwd=self.folder, env=self.env,
            capture_output=True, text=True, timeout=40, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout.splitlines()

    def worker(self, module, *queues):
        """The worker of its README, with one slot, so that the order is seen."""
        return Worker(module, cwd=self.folder, env=self.env, queues=queues, concurrency=1,
                      log_path=self.tmp_path / "worker.log")  # fmt: skip

    @contextlib.contextmanager
    def serving(self, *command):
        """A web server process; yields a client of it, and shows its log when the test fails."""
        port, log = free_port(), self.tmp_path / "web.log"
        with log.open("wb") as out:
            process = spawn([sys.executable, "-m", *command, "--port", str(port)],
                            cwd=self.folder, env=self.env, stdout=out, stderr=out)  # fmt: skip
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
                eventually(lambda: answers(client), 20, "the web server answers")
                yield client
            process.terminate()
            process.wait(10)
            assert "Traceback" not in log.read_text()
        finally:
            process.kill()
            process.wait(10)
            print(log.read_text())


def answers(client):
    try:
        return client.get("/nothing").status_code == 404
    except httpx.TransportError:
        return False


def read_results(client, ids):
    """Results of items, once all are there."""

    def read():
        found = [client.get(f"/items/{item_id}").json() for item_id in ids]
        return all(each["state"] == "SUCCESS" for each in found) and found

    return [each["result"] for each in eventually(read, 20, "all items are done")]


@pytest.fixture
def example(request, tmp_path):
    """The example a test is named after, and an empty server."""
    with Server() as server:
        name = request.node.name.removeprefix("test_").split("_")[0]
        yield Example(name, tmp_path, server.url().rsplit("/", 1)[0])


def test_plain(example):
    """The second tenant's first item is served after one of the first one's."""
    script = spawn([sys.executable, "-W", "error", "enqueue.py"], cwd=example.folder,
                   env=example.env, stdout=subprocess.PIPE)  # fmt: skip
    with example.worker("tasks", "vtrr_reports") as worker:
        out, _ = script.communicate(timeout=40)
        lines = out.decode().splitlines()
    assert lines == ["bolt: b1", "bolt: mail", *(f"acme: a{number}" for number in range(1, 6))]
    log = worker.log()
    done = sorted(lines, key=lambda line: log.index(f"{line!r}"))
    assert done.index("bolt: b1") <= done.index("acme: a3")
    assert "ConnectionError('the mail server does not answer')" in log


def test_flask(example):
    """Views enqueue and read; a bad call is the caller's fault."""
    with (
        example.worker("tasks", "vtrr_thumbnails"),
        example.serving("flask", "--app", "web", "run") as client,
    ):
        answer = client.post("/acme/images", json={"paths": ["a.png", "b.png"]})
        assert answer.status_code == 202
        assert read_results(client, answer.json()["ids"]) == [
            "thumbnail of a.png", "thumbnail of b.png",
        ]  # fmt: skip
        refused = client.post("/acme/images", json={"paths": [""]})
        assert (refused.status_code, "path" in refused.text) == (400, True)


def test_fastapi(example):
    """Many requests at once, then a full backlog."""
    with example.serving("uvicorn", "web:app") as client:
        answer = client.post("/acme/texts", json={"texts": ["some words", "more words"]})
        assert answer.status_code == 202
        full = client.post("/bolt/texts", json={"texts": ["x"] * 1001})
        assert full.status_code == 429
        with example.worker("tasks", "vtrr_summaries"):
            assert read_results(client, answer.json()["ids"]) == ["some", "more"]


def test_django(example):
    """A sync view enqueues after its commit, an async one awaits; the worker writes the rows."""
    example.run("manage.py", "migrate", "-v", "0")
    assert example.run("manage.py", "makemigrations", "--check")[0] == "No changes detected"
    command = ("uvicorn", "--lifespan", "off", "shop.asgi:application")
    with example.worker("shop", "vtrr_files"), example.serving(*command) as client:
        answer = client.post("/uploads", json={"tenant": "acme", "texts": ["a\nb", "c"]})
        assert answer.json() == {"ids": [1, 2]}

        def lines():
            return [client.get(f"/uploads/{pk}").json()["lines"] for pk in (1, 2)]

        eventually(lambda: lines() == [2, 1], 20, "both are counted")
        again = client.post("/uploads/1/again")
        assert (again.status_code, len(again.json()["ids"])) == (202, 1)
        eventually(lambda: lines() == [2, 1], 20, "the first is counted again")
        assert client.post("/uploads/3/again").status_code == 404


def test_canvas(example):
    """Chords of two tenants and a chain of a plain and a fair task."""
    with example.worker("tasks", "celery", "vtrr_pages"):
        assert example.run("book.py") == [
            "acme: A 1, A 2, A 3, A 4", "bolt: B 1, B 2", "SAMPLE 1",
        ]  # fmt: skip


def test_every_example_is_in_the_readme_and_has_a_test():
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    readme = (EXAMPLES / "README.md").read_text()
    assert folders == {"plain", "flask", "fastapi", "django", "canvas"}
    assert all(f"| `{folder}` |" in readme for folder in folders)
    assert all(f"test_{folder}" in globals() for folder in folders)
