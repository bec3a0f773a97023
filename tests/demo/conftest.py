"""The demo as a running process, and what it may leave behind."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.processes import spawn
from tests.waiting import eventually


@dataclass(frozen=True)
class RunningDemo:
    """The demo as a user starts it, with a temporary folder of its own."""

    process: Any  # subprocess.Popen[bytes]
    temporary: Path
    out_file: Path
    err_file: Path

    @property
    def out(self) -> str:
        return self.out_file.read_text()

    @property
    def err(self) -> str:
        return self.err_file.read_text()

    def wait(self, timeout: float = 50.0) -> int:
        """Wait for the end and return the exit code."""
        return self.process.wait(timeout)

    def wait_for_output(self, text: str) -> None:
        """Wait until the demo has printed the text."""
        eventually(lambda: text in self.out or self.process.poll() is not None, 40, repr(text))
        assert text in self.out, self.err

    def family(self) -> dict[int, str]:
        """Map process id -> command line of all that the demo started."""
        found = {}
        for process in psutil.process_iter():
            try:
                if self._is_ours(process):
                    found[process.pid] = " ".join(process.cmdline())
            except psutil.Error:  # it ended meanwhile, or belongs to somebody else
                continue
        found.pop(self.process.pid, None)
        return found

    def _is_ours(self, process: psutil.Process) -> bool:
        # Valkey writes its title over its environment, but works in its folder.
        places = (process.environ().get("TMPDIR", ""), process.cwd())
        return any(place.startswith(str(self.temporary)) for place in places)

    def assert_nothing_left(self) -> None:
        """Fail when processes or temporary files are still there."""
        assert list(self.temporary.iterdir()) == []
        # Killed members of a worker's pool take a moment to go.
        eventually(lambda: self.family() == {}, 3, "no process left")


@pytest.fixture
def start_demo(tmp_path):
    """Start the demo with options and environment, `start_demo("--items", "60")`, and end it."""
    started = []

    def start(*options: str, **environment: str) -> RunningDemo:
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        out_file, err_file = tmp_path / "out.txt", tmp_path / "err.txt"
        with out_file.open("wb") as out, err_file.open("wb") as err:
            process = spawn(
                [sys.executable, "-m", "vtrr_queue.demo", *options],
                stdout=out,
                stderr=err,
                env={**os.environ, "COLUMNS": "100", "TMPDIR": str(temporary), **environment},
            )
        started.append(process)
        return RunningDemo(process, temporary, out_file, err_file)

    yield start
    for process in started:
        process.kill()  # its children die with it
        process.wait()
