"""Calls, bytes and memory are no worse than the stored baseline (benchmarks/figures.json)."""

import pytest

from benchmarks.figures import COUNT, MEMORY, WIRE, Figure, baseline, measured, worse
from tests.servers import Server, wanted_kinds


@pytest.mark.parametrize("kind", wanted_kinds())
def test_no_figure_is_worse_than_its_baseline(kind):
    """A change that costs calls, bytes or memory says so, with `--only figures --accept`."""
    with Server(kind) as server, server.client() as client:
        found = measured(client)
    assert worse(found, baseline(kind)) == []
    assert baseline(kind).keys() == found.keys()


def test_what_is_worse_is_named():
    """Each unit has its tolerance; what is new must be accepted first."""
    found = {
        "calls": Figure(COUNT, 3.1),
        "sent": Figure(WIRE, 1021.5),
        "kept": Figure(MEMORY, 214.9),
        "new": Figure(COUNT, 1.0),
    }
    known = {"calls": 3.0, "sent": 1000.0, "kept": 200.0}
    assert [sentence.partition(":")[0] for sentence in worse(found, known)] == [
        "calls",
        "sent",
        "kept",
        "new",
    ]
    close = {"calls": Figure(COUNT, 3.0), "sent": Figure(WIRE, 1020.0), "kept": Figure(MEMORY, 213)}
    assert worse(close, known) == []
