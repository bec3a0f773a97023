"""Figures, sentence, table and picture, without a server."""

import io
import json
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from vtrr_queue.demo.picture import LogScale, draw
from vtrr_queue.demo.report import Comparison, LaneFigures, Waits, duration
from vtrr_queue.demo.show import closing_lines, table

FLOOD = [4.0, 5.0, 6.0]


@pytest.fixture
def comparison():
    """Two lanes: small tenants wait 4 s in one and 0.05 s in the other."""
    slow = {"flood": FLOOD, "acme": [4.0, 4.0], "bolt": [3.9, 4.1]}
    fast = {"flood": FLOOD, "acme": [0.05, 0.05], "bolt": [0.04, 0.06]}
    return Comparison(
        LaneFigures.of("plain Celery", 6.5, slow, "flood"),
        LaneFigures.of("vtrr-queue", 6.4, fast, "flood"),
        "flood",
    )


def test_waits_are_condensed_by_nearest_rank():
    """The 95th percentile is a value that was measured, order does not matter."""
    waits = [float(n) for n in range(20, 0, -1)]
    assert Waits.of(waits) == Waits(count=20, median=10.5, p95=19.0, longest=20.0)


def test_a_single_wait_is_every_figure():
    """One item is enough for all figures."""
    assert Waits.of([0.5]) == Waits(1, 0.5, 0.5, 0.5)


def test_the_flood_is_not_among_the_small_tenants(comparison):
    """The figure of the small tenants takes their items together and leaves the flood out."""
    assert comparison.plain.small == Waits(4, 4.0, 4.1, 4.1)
    assert comparison.plain.tenants["flood"] == Waits(3, 5.0, 6.0, 6.0)


def test_the_speed_up_is_the_ratio_of_medians(comparison):
    """4 s against 0.05 s is 80 times, and the sentence names both."""
    assert comparison.speed_up == pytest.approx(80)
    assert "from 4.00 s to 50 ms" in comparison.sentence


def test_a_run_without_a_difference_does_not_boast(comparison):
    """When nobody had to wait, the sentence asks for a larger flood."""
    even = Comparison(comparison.fair, comparison.fair, "flood")
    assert even.speed_up == 1
    assert "--items" in even.sentence


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0004, "0.4 ms"), (0.0099, "9.9 ms"), (0.046, "46 ms"), (0.999, "999 ms"), (4.1, "4.10 s")],
)
def test_times_are_written_with_their_unit(seconds, text):
    """Short times in milliseconds, long ones in seconds."""
    assert duration(seconds) == text


def test_the_figures_survive_json(comparison):
    """What --json writes can be read back and holds both lanes."""
    told = json.loads(json.dumps(comparison.figures()))
    assert told["small_tenants_speed_up"] == pytest.approx(80)
    assert told["fair"]["tenants"]["acme"] == {
        "count": 2,
        "median": 0.05,
        "p95": 0.05,
        "longest": 0.05,
    }


def test_the_table_fits_into_80_columns(comparison):
    """Every tenant has a row with six times, none of them cut off."""
    console = Console(file=io.StringIO(), width=80)
    console.print(table(comparison))
    text = console.file.getvalue()
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert rows["acme"].split() == ["acme", "2", *(["4.00", "s"] * 3), *(["50", "ms"] * 3)]
    assert rows["all"].split()[:3] == ["all", "small", "4"]
    assert "…" not in text


def test_the_closing_lines_name_the_speed_up(comparison):
    """The result stands below the table, with the time both lanes took."""
    text = closing_lines(comparison)
    assert "80.0x" in text
    assert "plain Celery 6.5 s, vtrr-queue 6.4 s" in text


def test_the_scale_covers_whole_decades():
    """The shortest time still has a bar, the longest stays inside."""
    scale = LogScale.covering(0.011, 4.2)
    assert scale == LogScale(-3, 1)
    assert scale.x(0.001) < scale.x(0.011) < scale.x(4.2) < scale.x(10)
    assert scale.decades == pytest.approx([0.001, 0.01, 0.1, 1, 10])


def test_the_scale_works_when_all_times_are_equal():
    """One time alone still gives a scale with a width."""
    scale = LogScale.covering(1.0, 1.0)
    assert scale.high > scale.low


def test_the_picture_has_a_bar_for_each_figure(comparison):
    """Two groups with two bars, longer for a longer wait, and their times in words."""
    root = ET.fromstring(draw(comparison))
    space = "{http://www.w3.org/2000/svg}"
    bars = [float(r.get("width")) for r in root.iter(f"{space}rect") if r.get("height") == "24"]
    assert len(bars) == 4
    assert bars[0] > bars[1]
    assert bars[2] == bars[3]
    words = [text.text for text in root.iter(f"{space}text")]
    assert "4.00 s, 95 % within 4.10 s" in words
    assert "50 ms, 95 % within 60 ms" in words
