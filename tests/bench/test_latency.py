"""The latency benchmark."""

import pytest

from benchmarks.contenders import Contender
from benchmarks.contenders.group import DrainFailed, Group, Setting
from benchmarks.latency import percentiles, small_waits

SOLO = {"solo": "celery -A tenants worker -l WARNING -P solo --without-gossip --without-mingle"}


def test_percentiles_lie_between_what_was_measured():
    """A percentile of 1 to 101 is its own number plus one, so none is beyond the longest wait."""
    assert percentiles([float(value) for value in range(1, 102)]) == (51.0, 96.0, 100.0)


def test_a_small_tenant_does_not_wait_for_the_flood(redis_client, server, tmp_path):
    """The waits are those of the small tenant's items, in seconds, and shorter than the flood."""
    contender = Contender("ours", "tenants", SOLO, variant="direct 1")
    with Group(contender, Setting(server.url(0), tmp_path, "solo", 0.005, 0)) as group:
        waits = small_waits(group, 3, 2000)
        assert len(waits) == 3
        assert all(0 < wait < 5 for wait in waits)
        assert group.done() < 2000


def test_a_flood_that_ends_early_is_a_failure(server, tmp_path):
    """Waits beside a flood that is over would flatter."""
    contender = Contender("ours", "tenants", SOLO, variant="direct")
    with (
        Group(contender, Setting(server.url(0), tmp_path, "solo", 0.0, 0)) as group,
        pytest.raises(DrainFailed, match="flood was over"),
    ):
        small_waits(group, 5, 60)
