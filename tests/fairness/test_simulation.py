"""The real scripts, with a set clock, share the time of 16 workers as they should."""

import random
from xml.etree import ElementTree as ET

import pytest

from tests.servers import Server
from vtrr_queue.simulate import (
    Fair,
    Fifo,
    Scripts,
    Tenant,
    jain,
    percentile,
    simulate,
    zipf_tenants,
)
from vtrr_queue.simulate.__main__ import main
from vtrr_queue.simulate.plot import shares_chart, waits_chart


@pytest.fixture(scope="module")
def valkey():
    """One server for all: they differ in speed, and here only the order counts."""
    with Server("valkey") as server, server.client() as client:
        yield client


@pytest.fixture
def scripts(valkey):
    order = Scripts(valkey)
    yield order
    order.close()
    assert valkey.dbsize() == 0


def shares(run, begin=0.0, end=None):
    """Part of the worker time that each tenant used."""
    used = run.worker_seconds(begin, end)
    total = sum(used.values())
    return {name: seconds / total for name, seconds in used.items()}


def test_long_and_short_items_get_half_each(scripts):
    """1000 s against 1 s; counting would give the short ones a thousandth."""
    tenants = [Tenant("long", 1000.0, backlog=60), Tenant("short", 1.0, backlog=20_000)]
    run = simulate(scripts, tenants, seconds=2000, charge="runtime")
    assert 0.45 <= shares(run)["long"] <= 0.55


def test_counting_items_does_not_share_time():
    """The control of the test above."""
    tenants = [Tenant("long", 1000.0, backlog=200), Tenant("short", 1.0, backlog=40_000)]
    run = simulate(Fair(), tenants, seconds=4000, charge="weight")
    assert shares(run)["short"] < 0.01


@pytest.mark.parametrize("charge", ["weight", "runtime"])
def test_shares_of_three_to_one(scripts, charge):
    tenants = [
        Tenant("three", 2.0, backlog=9000, exponential=True, policy={"share": 3}),
        Tenant("one", 2.0, backlog=9000, exponential=True),
    ]
    run = simulate(scripts, tenants, seconds=600, charge=charge)
    assert 0.72 <= shares(run)["three"] <= 0.78


def check_twenty_tenants(order):
    tenants = [
        Tenant(f"t{n:02d}", 1000 ** (n / 19), backlog=round(60_000 / 1000 ** (n / 19)) + 200,
               exponential=True)
        for n in range(20)
    ]  # fmt: skip
    run = simulate(order, tenants, seconds=40_000, charge="runtime", seed=3)
    assert jain(run.worker_seconds().values()) >= 0.99


def test_twenty_tenants_of_very_different_items():
    """Means of 1 to 1000 s, unknown beforehand: Jain's index of worker time at least 0.99."""
    check_twenty_tenants(Fair())


@pytest.mark.chaos
def test_twenty_tenants_through_the_scripts(scripts):
    """The same on a real server."""
    check_twenty_tenants(scripts)


def test_a_tenant_whose_cap_is_lifted_does_not_take_the_pool(scripts):
    """It has earned nothing while it was capped."""
    tenants = [
        Tenant("capped", 5.0, backlog=9000, policy={"cap": 1}),
        *(Tenant(f"t{n}", 5.0, backlog=9000) for n in range(3)),
    ]
    changes = [(2000.0, "capped", {"cap": None})]
    run = simulate(scripts, tenants, seconds=3000, charge="runtime", changes=changes)
    assert shares(run, 0, 2000)["capped"] == pytest.approx(1 / 16, abs=0.01)
    assert 0.15 <= shares(run, 2000, 3000)["capped"] <= 0.35


def test_trickling_tenants_do_not_starve_a_backlogged_one(scripts):
    """Each enqueues an item whenever it has none; debt is kept, so that it pays for them."""
    trickling = [Tenant(f"t{n:02d}", 4.0, rate=2.0) for n in range(10)]
    run = simulate(scripts, [*trickling, Tenant("big", 4.0, backlog=5000)], seconds=400)
    assert shares(run)["big"] >= 0.9 / 11


@pytest.mark.parametrize("charge", ["weight", "runtime"])
def test_a_newcomer_waits_for_one_serve_of_each_other(scripts, charge):
    tenants = [
        *(Tenant(f"t{n}", 3.0, backlog=5000) for n in range(8)),
        Tenant("new", 3.0, backlog=1, begins=500.5),
    ]
    run = simulate(scripts, tenants, seconds=600, charge=charge)
    (start,) = [started for started, _, name, _ in run.served if name == "new"]
    between = [name for started, _, name, _ in run.served if 500.5 < started < start]
    assert max(map(between.count, between), default=0) <= 1


def test_the_reference_and_the_scripts_serve_alike(redis_client):
    """In the same order, item for item, with shares, caps, rates and a hold."""
    tenants = [
        Tenant(f"t{n}", random.Random(n).uniform(0.5, 9), rate=0.5, exponential=True,
               policy={"share": (0.5, 1, 2, 4)[n % 4]})
        for n in range(12)
    ]  # fmt: skip
    changes = [
        (100.0, "t1", {"cap": 1}), (150.0, "t2", {"rate": "6/m"}), (200.0, "t3", {"hold": 60}),
        (300.0, "", {"max_in_flight": 5}), (400.0, "t1", {"cap": None}),
    ]  # fmt: skip
    scripts = Scripts(redis_client)
    runs = [
        simulate(order, tenants, workers=6, seconds=600, charge="runtime", changes=changes)
        for order in (Fair(), scripts)
    ]
    scripts.close()
    assert len(runs[0].served) > 800
    assert runs[0].served == runs[1].served


def test_a_reserved_slot_helps_who_comes_rarely():
    """With 16 workers and long items, a cap of 15 spares a small tenant nearly all of its wait."""
    tenants = [
        Tenant("big", 600.0, backlog=9000, exponential=True),
        Tenant("small", 1.0, rate=0.01),
    ]
    waits = []
    for cap in (None, 15):
        changes = [(0.0, "big", {"cap": cap})]
        run = simulate(Fair(), tenants, seconds=80_000, charge="runtime", changes=changes)
        waits.append(percentile(run.waits("small"), 99))
    assert waits[0] > 20 * max(waits[1], 1)


def test_small_tenants_wait_less_than_in_a_plain_queue():
    """A flood by Zipf's law at one and a half times the capacity."""
    tenants = zipf_tenants(100, 1.5, 1.0, 16)
    medians = [
        percentile(simulate(order, tenants, seconds=600, charge="runtime").waits("all others"), 50)
        for order in (Fifo(), Fair())
    ]
    assert medians[0] > 50 * medians[1]


def test_the_same_seed_gives_the_same_table(server, capsys):
    """The command prints first in, first out and the fair order, here through the real scripts."""
    arguments = ["--seconds", "60", "--tenants", "20", "--redis", server.url(), "--cap", "15"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert main(arguments) == 0
    assert capsys.readouterr().out == first
    assert first.count("Jain's index over 20 tenants") == 2


def test_charts_are_drawings_of_what_was_measured():
    """Well-formed, with every group, order and figure; names are escaped."""
    tenants = [Tenant("<big>", 5.0, backlog=50), Tenant("small", 1.0, rate=0.1)]
    runs = {
        name: simulate(order, tenants, workers=2, seconds=100)
        for name, order in (("plain", Fifo()), ("fair & square", Fair()))
    }
    for chart in (waits_chart("Waits", runs), shares_chart("Shares", runs, "small")):
        texts = [element.text for element in ET.fromstring(chart).iter() if element.text]
        assert {"plain", "fair & square"} <= set(texts)
    texts = [e.text for e in ET.fromstring(waits_chart("Waits", runs)).iter() if e.text]
    assert {"<big>", "small", f"{percentile(runs['plain'].waits('small'), 95):.2f} s"} <= set(texts)
