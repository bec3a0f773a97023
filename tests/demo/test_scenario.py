"""Who comes when, what counts as done, and what a person sees meanwhile."""

import io
import json

import pytest
from rich.console import Console

from vtrr_queue.demo.ledger import Ledger
from vtrr_queue.demo.outcome import DemoFailed
from vtrr_queue.demo.scenario import FLOOD, SMALL, Lane, Run, Scenario
from vtrr_queue.demo.show import Bars, Lines, make_show

EXPECTED = {"flood": 2, "acme": 1}


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self):
        return True


def rows(*runs):
    return [json.dumps([tenant, number, 0.25]).encode() for tenant, number in runs]


@pytest.fixture
def run():
    return Run(Lane("plain", "plain Celery", lambda _tenant, _count: iter(())), Ledger(EXPECTED), 0)


def test_the_flood_comes_first_and_everybody_once():
    """Every tenant comes with its items; the small ones after the flood."""
    arrivals = Scenario(items=60, small=3).arrivals()
    assert arrivals[0].tenant == FLOOD
    assert arrivals[0].count == 60
    assert sorted(a.tenant for a in arrivals[1:]) == sorted(SMALL)
    assert {a.count for a in arrivals[1:]} == {3}
    assert arrivals[1].gap_seconds > 0


def test_the_seed_decides_the_order():
    """One seed always gives the same arrivals, and not all seeds give the same."""
    assert Scenario(seed=7).arrivals() == Scenario(seed=7).arrivals()
    assert len({tuple(Scenario(seed=seed).arrivals()) for seed in range(5)}) > 1


def test_a_full_ledger_has_no_faults():
    """One run of each item is what is wanted."""
    ledger = Ledger(EXPECTED)
    ledger.add(rows(("flood", 1), ("acme", 0)))
    assert not ledger.complete
    ledger.add(rows(("flood", 0)))
    assert ledger.complete
    assert ledger.faults() == []
    assert ledger.waits == {"flood": [0.25, 0.25], "acme": [0.25]}


def test_lost_repeated_and_foreign_runs_are_faults(run):
    """The number of runs alone is not enough: each item must have run once."""
    run.ledger.add(rows(("flood", 0), ("flood", 0), ("acme", 0), ("acme", 9)))
    assert run.ledger.complete
    assert run.ledger.faults() == [
        "acme: item 9 ran but was never enqueued",
        "flood: 1 items did not run",
        "flood: item 0 ran 2 times",
    ]
    with pytest.raises(DemoFailed, match="3 faults"):
        run.verify()


@pytest.mark.parametrize("forced", [True, False])
def test_a_file_gets_lines_even_when_colour_is_forced(monkeypatch, forced):
    """Bars are for terminals; FORCE_COLOR does not make a file one."""
    if forced:
        monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(make_show(Console(file=io.StringIO()), ["a"], EXPECTED), Lines)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(make_show(Console(file=Terminal()), ["a"], EXPECTED), Bars)


def test_bars_show_count_and_median_of_every_tenant(run):
    """On a terminal each tenant has a bar with done/total and its median wait so far."""
    console = Console(file=Terminal(), force_terminal=True, width=100)
    run.ledger.add(rows(("flood", 0), ("acme", 0)))
    with Bars(console, ["plain Celery", "vtrr-queue"], EXPECTED) as show:
        show.say("starting")
        show.update(run)
        drawn = console.file.getvalue()
    for text in ("plain Celery", "vtrr-queue", "flood", "acme", "1/2", "1/1", "2/3", "250 ms"):
        assert text in drawn


def test_lines_come_at_most_every_two_seconds(run, monkeypatch):
    """Elsewhere progress is a line of text, not more than one in two seconds."""
    now = [100.0]
    monkeypatch.setattr("vtrr_queue.demo.show.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=200)
    run.ledger.add(rows(("flood", 0)))
    with Lines(console) as show:
        for _ in range(30):
            show.update(run)
            now[0] += 0.1
    assert (
        console.file.getvalue().splitlines()
        == [
            "plain Celery: 1/3 done, median wait flood 250 ms, acme -",
        ]
        * 2
    )
