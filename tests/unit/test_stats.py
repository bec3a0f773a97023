"""What workers count in memory."""

import pytest

from vtrr_queue.stats import BOUNDS, MOST_ENTRIES, Histogram, Tally


def fresh():
    """A tally that has told that it is there."""
    tally = Tally()
    tally.added(*tally.batches())
    return tally


def test_the_first_batch_is_empty():
    """It only makes the key by which scripts know that somebody counts."""
    (batch,) = Tally().batches()
    assert (batch.totals, batch.charges) == ((), ())


def test_counts_are_handed_over_once():
    """A batch that could not be added comes again under its name, beside what is new."""
    tally = fresh()
    tally.served(0.03)
    tally.charged("a", 2)
    (batch,) = tally.batches()
    assert dict(batch.totals) == {"served": "1", "wait:3": "1", "wait_us": "30000"}
    assert dict(batch.charges) == {"a": "2.000000"}
    assert tally.batches() == [batch]
    tally.ended("acked", 100_000.0, failed=True)
    again, later = tally.batches()
    assert again == batch
    assert dict(later.totals) == {"acked": "1", "failed": "1", f"run:{len(BOUNDS)}": "1",
                                  "run_us": "100000000000"}  # fmt: skip
    tally.added(batch)
    tally.added(later)
    assert tally.batches() == []


def test_many_partitions_make_several_batches():
    tally = fresh()
    tally.served(None)
    for n in range(MOST_ENTRIES + 1):
        tally.charged(f"p{n}", 1)
    first, second = tally.batches()
    assert (len(first.totals), len(first.charges)) == (1, MOST_ENTRIES)
    assert (len(second.totals), len(second.charges)) == (0, 1)


def test_a_clock_that_stands_behind_is_no_negative_wait():
    tally = fresh()
    tally.served(-0.5)
    assert ("wait:0", "1") in tally.batches()[0].totals


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [({}, 0.5, None), ({4: 10}, 0.5, 0.075), ({4: 10, 7: 10}, 1.0, 1.0), ({20: 1}, 0.5, BOUNDS[-1]),
     ({0: 1, 6: 1}, 0.5, 0.005)],
)  # fmt: skip
def test_quantiles_lie_within_their_bucket(counts, share, expected):
    """As in Prometheus: evenly spread inside it, and never above the last bound."""
    found = Histogram(tuple(counts.get(n, 0) for n in range(len(BOUNDS) + 1))).quantile(share)
    assert found == (expected if expected is None else pytest.approx(expected))
