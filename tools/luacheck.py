"""Run luacheck on every script as the server sees it: prelude, includes and body composed.

A misspelt key is then an undefined global and a declared but unused one an unused variable. Once
more with each function where it is called, as the server gets it: there only globals are looked at,
as a block that takes a function's place has variables of the same names as what is around it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from vtrr_queue.scripting import compose_all

CONFIG = Path(__file__).with_name("luacheckrc")


def main() -> int:
    """Check the composed scripts; without luacheck fail under CI and say so elsewhere."""
    luacheck = shutil.which("luacheck")
    if luacheck is None:
        print("luacheck is not installed (Debian: lua-check): the Lua scripts were not checked")
        return 1 if os.environ.get("CI") else 0
    whole = _check(luacheck, compose_all(in_place=False))
    return whole or _check(luacheck, compose_all(), "--only", "1..")


def _check(luacheck: str, scripts: dict[str, str], *options: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for name, text in sorted(scripts.items()):
            names.append(f"{name}.lua")
            (Path(folder) / names[-1]).write_text(text, encoding="utf-8")
        command = [luacheck, *names, "--quiet", "--codes", "--no-color", "--config", str(CONFIG)]
        return subprocess.run([*command, *options], cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
