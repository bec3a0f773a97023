"""What a run writes down."""

from xml.etree import ElementTree as ET

import pytest

from benchmarks.__main__ import main
from benchmarks.plot import draw
from benchmarks.report import Table
from benchmarks.results import write


def test_a_run_is_written_with_its_command_and_tables(tmp_path):
    """The page names what the run was made on, how to repeat it, and shows each table."""
    for folder in ("benchmarks", "docs"):
        (tmp_path / folder).mkdir()
    rows = [["plain Celery", 10.0, "1.00 x"], ["vtrr-queue, direct", 25.0, "2.50 x"]]
    table = Table("Drain, solo", "a note", ("", "no-op, items/s", "ratio"), rows)
    write([table], {"server": "valkey 9"}, ["--only", "drain", "--write"], tmp_path)
    page = (tmp_path / "benchmarks/RESULTS.md").read_text()
    assert "- server: valkey 9" in page
    assert 'make bench ARGS="--only drain --write"' in page
    assert "| vtrr-queue, direct | 25.0 | 2.50 x |" in page
    assert "vtrr-queue, direct" in (tmp_path / "docs/bench.svg").read_text()


def test_the_longest_bar_is_the_fastest():
    """Bars are as long as their rates, and the picture is valid XML whatever names it shows."""
    text = draw("a < b", "n", [("solo", [("plain", 5.0), ("vtrr-queue <x>", 10.0)])], "plain")
    picture = ET.fromstring(text)
    widths = [float(rect.get("width")) for rect in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[2] == pytest.approx(2 * widths[1])
    assert "10/s, 2.0 x" in text


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--peers", "rq,nobody"]])
def test_an_unknown_name_is_refused(arguments, capsys):
    """The message says what is known."""
    with pytest.raises(SystemExit):
        main(arguments)
    assert "is not one of" in capsys.readouterr().err
