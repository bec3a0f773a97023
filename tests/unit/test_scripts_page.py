"""docs/reference/scripts.md says what the scripts take, answer and call."""

import re

from tools.scripts_page import TARGET, commands_of, render
from vtrr_queue.scripting import load, script_names


def test_the_page_is_in_step_with_the_scripts():
    """Whoever changes a header or a command writes the page anew."""
    assert TARGET.read_text() == render(), "run: python tools/scripts_page.py"


def test_every_script_has_a_section_with_its_cost():
    """A script without a stated complexity is not documented."""
    sections = re.findall(r"^## (\w+)\n\n.+?\n\nComplexity: O\(", render(), re.MULTILINE)
    assert sections == list(script_names())


def test_no_call_is_overlooked():
    """Each `redis.call` of a script names at least one command that the page lists."""
    for name in script_names():
        script = load(name)
        calls = re.findall(r"redis\.p?call\(([^\n]*)", script.text)
        for call in calls:
            assert any(f'"{command}"' in call for command in commands_of(script)), call
