"""The tests of a script produce every reply that its header declares."""

import re
from pathlib import Path

import pytest

from vtrr_queue.scripting import load, script_names


@pytest.mark.parametrize("name", script_names())
def test_every_alternative_of_a_script_has_a_test(name):
    statuses = re.findall(r'\{ *"(\w+)"', load(name).header.returns)
    text = (Path(__file__).parent / f"test_{name}.py").read_text()
    assert statuses
    assert [status for status in statuses if f'"{status}"' not in text] == []
