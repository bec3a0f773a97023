"""The environments of the peers, each made when it is first asked for, in ``.bench/<peer>/``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".bench"

_INSTALL_SECONDS = 300.0


class NotInstalled(Exception):
    """A peer can't be had here; the text says why."""


def programs(peer: str) -> Path:
    """The folder of programs of a peer's environment, or of ours.

    Args:
        peer: Its name; "" for the environment that runs this.

    Raises:
        NotInstalled: It could not be installed.
    """
    if not peer:
        return Path(sys.executable).parent
    wanted = (ROOT / "requirements" / f"bench-{peer}.txt").read_text()
    place = FOLDER / peer
    stamp = place / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        _install(peer, place)
        stamp.write_text(wanted)
    return place / "bin"


def _install(peer: str, place: Path) -> None:
    requirements = ROOT / "requirements" / f"bench-{peer}.txt"
    for command in (
        [sys.executable, "-m", "venv", str(place)],
        [str(place / "bin/python"), "-m", "pip", "install", "--quiet", "-r", str(requirements)],
    ):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise NotInstalled(str(exc)) from exc
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise NotInstalled(lines[-1] if lines else f"exit code {done.returncode}")
