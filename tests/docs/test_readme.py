"""What README says about the interface is what the code has."""

import inspect
import os
import re
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, read_page
from tests.servers import Server
from vtrr_queue import Engine, VTRRQueue
from vtrr_queue.celery.options import TASK_OPTIONS
from vtrr_queue.keys import SCRIPT_KEYS
from vtrr_queue.payload import decode

README = (ROOT / "README.md").read_text()
RESERVED = frozenset()
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def section(title):
    """The text under a heading, up to the next one of its level."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    assert found, f"no section {title!r}"
    return found[1]


def table(title):
    """First and second column of the first table of a section."""
    rows = re.findall(r"^\| *(.*?) *\| *(.*?) *\|", section(title), re.MULTILINE)
    return [row for row in rows[1:] if not row[0].startswith("---")]


def words(text):
    """What stands between backticks."""
    return re.findall("`([^`]+)`", text)


def test_it_opens_with_the_problem_and_two_commands():
    opening = README.split("## Quick start")[0]
    assert (
        opening.index("One tenant queues") < opening.index("make demo") < opening.index("make test")
    )
    assert opening.index("make test") < opening.index("```python") < opening.index("docs/demo.svg")


def test_the_first_example_has_ten_lines():
    source = read_page(ROOT / "README.md").modules["tasks.py"]
    assert len([line for line in source.splitlines() if line]) <= 10


def test_the_parameters_are_those_of_the_constructor():
    parameters = inspect.signature(VTRRQueue).parameters
    documented = {words(name)[0]: words(default) for name, default in table("Parameters")}
    assert list(documented) == list(parameters)
    for name, parameter in parameters.items():
        default = [] if parameter.default is parameter.empty else [repr(parameter.default)]
        assert [text.replace('"', "'") for text in documented[name]] == default, name


def test_the_options_are_those_of_the_decorator():
    documented = [option for cell, _ in table("Task options") for option in words(cell)]
    assert sorted(documented) == sorted([*TASK_OPTIONS, "bind"])


def test_the_keys_are_those_of_the_scripts():
    documented = [key.split(":")[0] for cell, _ in table("Keys in Redis") for key in words(cell)]
    assert sorted(documented) == sorted(set(SCRIPT_KEYS) - RESERVED)


@pytest.mark.parametrize(
    "title",
    ["Quick start", "How it works", "Parameters", "Task options", "Workers", "Recovery", "Limits",
     "Time limits and leases", "Delivery: at least once", "Keys in Redis", "Other ways to do it",
     "Upgrading from 0\\.2"],
)  # fmt: skip
def test_a_section_is_there(title):
    assert len(section(title)) > 200


def test_the_order_shown_is_the_order_served(tmp_path):
    """The quick start without a worker."""
    page = read_page(ROOT / "README.md")
    with Server() as server:
        page.write(tmp_path, f"{server.host}:{server.port}")
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        subprocess.run([sys.executable, "the_script.py"], cwd=tmp_path, env=env, check=True)
        with server.client(1) as client:
            engine = Engine(client, "files")
            leases = engine.lease(count=10).items
            engine.client.close()
    calls = [decode(lease.body).call() for lease in leases]
    paths = [args[0] if args else kwargs["path"] for args, kwargs in calls]
    assert paths == ["a1.csv", "b1.csv", "a2.csv", "a3.csv", "small.csv", "huge.csv", "report.csv"]


def anchors(path):
    """Headings of a page as GitHub links them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_within_the_project_lead_somewhere(path):
    prose = re.sub(r"```.*?```|`[^`]+`", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match("[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), f"{target}: no such file"
        assert not anchor or anchor in anchors(linked), f"{target}: no such heading"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_names_a_machine(path):
    """No home folders, no private hosts, no registries."""
    text = path.read_text()
    assert not re.findall(r"/(?:home|root|work|Users|tmp)/\S*|index-url|\b10\.\d+\.\d+\.\d+", text)
