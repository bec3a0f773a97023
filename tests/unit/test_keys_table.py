"""docs/keys.md says what the code keeps in Redis."""

from tools.keys_table import ENDS, TARGET, declared, render
from vtrr_queue.keys import SCHEDULING_KEYS, SCRIPT_KEYS


def test_the_table_is_in_step_with_the_code():
    assert TARGET.read_text() == render(), "run: python tools/keys_table.py"


def test_every_key_of_the_code_is_declared_by_a_script():
    assert [key for key, where in declared().items() if not where] == []


def test_every_key_has_an_end():
    assert sorted((*SCHEDULING_KEYS, *ENDS)) == sorted(SCRIPT_KEYS)
