"""The code of a page: modules, scripts and commands.

A Python block whose first line is a comment with a file name is a module of that name. Other Python
blocks follow each other in one script. A block under `<!-- not run: reason -->` is left out.
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"(?:^<!-- not run: (.+?) -->\n)?^( *)```(\S*)[^\n]*\n(.*?)^\2```$", re.MULTILINE | re.DOTALL
)
MODULE = re.compile(r"# ([\w/]+\.py)\n")
ADDRESS = "localhost:6379"


@dataclass
class Page:
    """What a page of documentation shows.

    Attributes:
        modules: Mapping path -> source.
        script: The other Python blocks, in order.
        commands: Lines of shell blocks.
        left_out: Reasons of the blocks that don't run.
    """

    modules: dict[str, str] = field(default_factory=dict)
    script: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def workers(self) -> list[list[str]]:
        """Arguments of each `celery -A module worker ...` command, from the module on."""
        words = [shlex.split(command, comments=True) for command in self.commands]
        return [w[2:] for w in words if w[:2] == ["celery", "-A"] and w[3] == "worker"]

    def write(self, folder: Path, address: str) -> None:
        """Write the modules and the script, with another address of the server."""
        files = self.modules | {"the_script.py": "\n".join(self.script)}
        for name, source in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.replace(ADDRESS, address))


def read_page(path: Path) -> Page:
    """Take a page apart."""
    page = Page()
    for reason, indent, language, text in FENCE.findall(path.read_text()):
        source = re.sub(f"^{indent}", "", text, flags=re.MULTILINE)
        if reason:
            page.left_out.append(reason)
        elif language == "sh":
            page.commands += source.splitlines()
        elif language == "python":
            module = MODULE.match(source)
            if module:
                page.modules[module[1]] = source
            else:
                page.script.append(source)
    return page


def pages() -> dict[str, Path]:
    """Every page with Python in it, by its path below docs; design notes are for reading."""
    docs = ROOT / "docs"
    found = {path.relative_to(docs).as_posix(): path for path in sorted(docs.rglob("*.md"))}
    notes = [name for name in found if name.startswith("design/")]
    found = {"README.md": ROOT / "README.md", **found}
    return {
        name: path for name, path in found.items()
        if name not in notes and "```python" in path.read_text()
    }  # fmt: skip
