"""docs/testing.md as a project: its tests pass."""

import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, read_page

pytestmark = pytest.mark.slow


def test_the_tests_of_the_page_pass(tmp_path):
    """Without a server or a broker at the address of the app; warnings are errors."""
    read_page(ROOT / "docs" / "testing.md").write(tmp_path, "queue.example:6379")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert "5 passed" in ended.stdout, ended.stdout + ended.stderr
