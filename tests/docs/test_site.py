"""The site builds without a warning, its links lead somewhere, and it has what can be imported."""

import inspect
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

import vtrr_queue
from tests.docs.blocks import ROOT
from vtrr_queue.celery.options import TASK_OPTIONS

pytest.importorskip("sphinx", reason="needs the extra 'docs'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


class Page(HTMLParser):
    """What a page links to, what can be linked in it, and the files that it shows."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, _tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.links += [given[name] for name in ("href", "src") if given.get(name)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a fresh build."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-n", "-q",
         "-d", tmp_path_factory.mktemp("doctrees"), ROOT / "docs", folder],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """Mapping file -> page; the index and the search are Sphinx's own."""
    return {path: Page(path.read_text()) for path in site.rglob("*.html")}


def test_every_link_inside_the_site_leads_somewhere(site, pages):
    """Files and anchors are looked up in what was built; nothing is asked of the network."""
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            missing = not target.is_file()
            if not missing and parts.fragment and target in pages:
                missing = unquote(parts.fragment) not in pages[target].anchors
            if missing:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(pages):
    """Fonts, styles and scripts come with the site: it can be read without the network."""
    for path, page in pages.items():
        for link in page.links:
            is_asset = urlsplit(link).path.endswith((".css", ".js", ".woff2", ".svg", ".png"))
            assert not (is_asset and urlsplit(link).netloc), f"{path.name}: {link}"


def test_every_page_is_in_a_table_of_contents(site, pages):
    """A page that nobody can find is not documentation."""
    listed = {
        (path.parent / urlsplit(link).path).resolve()
        for path, page in pages.items()
        for link in page.links
        if not urlsplit(link).netloc and not urlsplit(link).scheme and urlsplit(link).path
    }
    own = {site / name for name in ("search.html", "genindex.html", "py-modindex.html")}
    assert sorted(set(pages) - listed - own) == []


def test_guides_are_found_by_themselves(site, pages):
    """A new file in docs/ is a guide on the site without any list to extend."""
    start = pages[site / "index.html"]
    for path in (ROOT / "docs").glob("*.md"):
        if path.stem not in {"index", "spec-coverage"}:
            assert f"{path.stem}.html" in start.links, path.name


def test_every_public_name_has_an_entry(pages):
    """What can be imported from the package can be looked up."""
    anchors = set().union(*(page.anchors for page in pages.values()))
    missing = [
        name for name in vtrr_queue.__all__
        if not {f"vtrr_queue.{name}", f"vtrr_queue.errors.{name}"} & anchors
    ]  # fmt: skip
    assert missing == []


def test_every_method_of_queue_and_task_has_an_entry(pages):
    """Users find what they may call; what only the library calls is left out on purpose."""
    anchors = set().union(*(page.anchors for page in pages.values()))
    ours = {"enqueue", "store", "astore", "send_triggers", "bury", "died", "unregister"}
    for kind in (vtrr_queue.VTRRQueue, vtrr_queue.VTRRTask, vtrr_queue.Engine):
        for name, member in inspect.getmembers(kind, callable):
            returned = str(getattr(member, "__annotations__", {}).get("return", ""))
            if name.startswith("_") or name in ours or returned.startswith(("Steps[", "tuple[C")):
                continue
            assert f"vtrr_queue.{kind.__name__}.{name}" in anchors, f"{kind.__name__}.{name}"


def test_every_option_stands_in_the_settings(site):
    """The arguments of `VTRRQueue` and the options of `@vtrr.task`."""
    text = (site / "reference" / "settings.html").read_text()
    options = [*inspect.signature(vtrr_queue.VTRRQueue).parameters, *TASK_OPTIONS]
    shown = [f'<span class="pre">{option}</span>' in text for option in options]
    assert [option for option, found in zip(options, shown, strict=True) if not found] == []


def test_every_design_note_is_in_the_index():
    """The index says in a sentence what each note decides."""
    folder = ROOT / "docs" / "design"
    index = (folder / "index.md").read_text()
    notes = [path.name for path in folder.glob("*.md") if path.name != "index.md"]
    assert [name for name in notes if f"]({name})" not in index] == []
