"""Settings of the documentation site; ``make site`` builds it.

Pages at the top of this folder that ``index.md`` does not name are guides: they are listed there by
themselves, so a new guide is a new file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import vtrr_queue

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

HERE = Path(__file__).parent

project = "vtrr-queue"
author = "the authors of vtrr-queue"
copyright = author  # noqa: A001 - Sphinx names it so
version = release = vtrr_queue.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["spec-coverage.md"]  # names tests, for those who change the code

html_theme = "furo"
html_title = f"vtrr-queue {release}"
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

smartquotes = False  # an empty string in prose is two straight marks

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Source"]
napoleon_use_ivar = True

GUIDES = "@guides"
PLANS = ("Steps[", "tuple[Call")
"""What methods return that plan a call instead of making it; they are no interface."""

nitpick_ignore_regex = [("py:.*", r"(celery|Context)\b.*")]


def list_guides(_app: Sphinx, page: str, source: list[str]) -> None:
    """Put the pages that the index does not name where it says ``@guides``."""
    if page != "index":
        return
    named = set(re.findall(r"^([\w-]+)$", source[0], re.MULTILINE))
    found = sorted(path.stem for path in HERE.glob("*.md"))
    hidden = {Path(pattern).stem for pattern in exclude_patterns} | {page}
    guides = [name for name in found if name not in named | hidden]
    source[0] = source[0].replace(GUIDES, "\n".join(guides))


def skip_plans(_app: Sphinx, _what: str, _name: str, member: object, *_: object) -> bool | None:
    """Leave out the methods that plan a call."""
    returned = str(getattr(member, "__annotations__", {}).get("return", ""))
    return True if returned.startswith(PLANS) else None


def keep_colons(
    _app: Sphinx, what: str, _name: str, _member: object, _options: object, lines: list[str]
) -> None:
    """Begin with an empty line: Napoleon takes what stands before a colon for the type."""
    if what in {"attribute", "data", "property"}:
        lines.insert(0, "")


def find_by_end(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Element | None:
    """Lead a Python name to the one documented object whose name ends so.

    Annotations and docstrings say ``Lease``, or the module where it is defined; pages document it
    under the name to import. Foreign names in annotations stay text.
    """
    if node.get("refdomain") != "py":
        return None
    domain = env.domains.python_domain
    names = [name for name, entry in domain.objects.items() if not entry.aliased]
    target = node["reftarget"]
    for end in (target, target.rsplit(".", 1)[-1]):
        found = [name for name in names if f".{name}".endswith(f".{end}")]
        if len(found) == 1:
            page = node.get("refdoc", "")
            return domain.resolve_xref(env, page, app.builder, "obj", found[0], node, content)
    is_annotation = "refwarn" not in node and node.get("reftype") != "exc"
    return content if is_annotation else None


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", list_guides)
    app.connect("autodoc-skip-member", skip_plans)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)  # Napoleon has 500
    app.connect("missing-reference", find_by_end)
