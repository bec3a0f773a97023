"""docs/django.md as a project: its view enqueues, its worker works, its own test passes."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, read_page
from tests.servers import Server
from tests.workers import Worker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        not importlib.util.find_spec("django_redis"), reason="needs Django and django-redis"
    ),
]
PAGE = read_page(ROOT / "docs" / "django.md")

# What `django-admin startproject` writes, as far as it matters here.
SETTINGS = """
SECRET_KEY = "for a test"
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["files"]
ALLOWED_HOSTS = ["testserver"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": {database!r},
                          "OPTIONS": {{"timeout": 20}}, "TEST": {{"NAME": ":memory:"}}}}}}
"""

# A browser and the time until the worker is done.
VISIT = """
import json, sys, time
import django
django.setup()
from django.db import connection, transaction
from django.test import Client
from files.models import Upload
from files.tasks import count_lines, vtrr

def post(tenant, texts):
    sent = json.dumps({"tenant": tenant, "texts": texts})
    return Client().post("/upload", sent, content_type="application/json")

answers = [post("acme", ["a", "b\\nc", "d\\ne\\nf"]), post("bolt", ["", "x\\ny"])]
assert [answer.json()["ids"] for answer in answers] == [[1, 2, 3], [4, 5]], answers

calls = vtrr.engine.client.calls
try:
    with transaction.atomic():
        transaction.on_commit(lambda: count_lines.queue("acme", [{"args": [1]}]))
        raise LookupError
except LookupError:
    assert vtrr.engine.client.calls == calls, "a transaction that failed has enqueued"

deadline = time.monotonic() + 30
while Upload.objects.filter(lines=None).exists() and time.monotonic() < deadline:
    time.sleep(0.05)
print([row.lines for row in Upload.objects.order_by("pk")])
"""


@pytest.fixture(scope="module")
def server():
    """A server of these tests alone."""
    with Server() as private:
        yield private


@pytest.fixture(scope="module")
def project(server, tmp_path_factory):
    """The project on disk, its database made."""
    folder = tmp_path_factory.mktemp("project")
    PAGE.write(folder, f"{server.host}:{server.port}")
    settings = folder / "shop" / "settings.py"
    database = str(folder / "db.sqlite3")
    settings.write_text(SETTINGS.format(database=database) + settings.read_text())
    (folder / "files" / "__init__.py").touch()
    python(folder, "-m", "django", "makemigrations", "files", "-v", "0")
    python(folder, "-m", "django", "migrate", "-v", "0")
    return folder


def environment(folder):
    """Environment of every process of the project."""
    return {**os.environ, "DJANGO_SETTINGS_MODULE": "shop.settings", "PYTHONPATH": str(folder)}


def python(folder, *arguments):
    """Run Python in the project and return what it printed."""
    ended = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment(folder), timeout=60,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_a_view_enqueues_and_the_worker_works(project, tmp_path):
    """The worker is started with the command that the page gives."""
    (module, _, *rest) = PAGE.workers[0]
    with Worker(module, cwd=project, env=environment(project), args=rest, concurrency=1,
                log_path=tmp_path / "worker.log") as worker:  # fmt: skip
        assert python(project, "-c", VISIT).strip() == "[1, 2, 3, 0, 2]"
        for number in range(1, 6):
            worker.wait_for_log(f"Task files.tasks.count_lines[upload-{number}] succeeded")
        assert "Traceback" not in worker.log()


def test_the_test_of_the_page_passes(project):
    assert re.search(r"Ran 1 test .*\n\nOK", python(project, "-m", "django", "test", "files"))


def test_beat_finds_the_queue_in_the_tasks_of_an_app(project):
    """`autodiscover_tasks` imports it before the schedule is read."""
    found = python(
        project, "-c",
        "from shop.celery import app; import celery.beat as b; app.loader.init_worker();"
        "app.finalize(); print(sorted(b.Service(app, scheduler_cls=b.Scheduler)"
        ".scheduler.schedule))",
    )  # fmt: skip
    assert found.strip() == "['vtrr_queue.reclaim.files']"


def test_importing_the_tasks_makes_no_connection(project):
    """Management commands work where there is no Redis."""
    code = (
        "import django; django.setup();"
        "from files.tasks import vtrr; print(vtrr.engine.client.calls)"
    )
    assert python(project, "-c", code).strip() == "0"
