"""docs/sizing.md says how much memory an item takes, and what a full server still does."""

import re
from uuid import UUID

import pytest

from tests.docs.blocks import ROOT
from tests.servers import Server, wanted_kinds
from vtrr_queue import Engine, Refused
from vtrr_queue.model import NewItem
from vtrr_queue.payload import encode

PAGE = (ROOT / "docs" / "sizing.md").read_text()
COLUMN = {"valkey": 1, "redis": 2}
ITEMS = 20_000
ROOM = 1.15
"""Tables that grow by doubling, and buffers of connections, weigh more with fewer items."""


@pytest.fixture(params=wanted_kinds())
def kind(request):
    """Each kind of server the page has a column for."""
    return request.param


def stated(row, kind):
    """The number of bytes that the page states."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {row}")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return float(re.match(r"[\d.]+", cells[COLUMN[kind]])[0])


def item(number, argument="a.csv"):
    """An item of the page: a UUID, or an id of that length, and one argument."""
    item_id = str(UUID(int=number)) if isinstance(number, int) else number.rjust(36, "-")
    return NewItem(item_id, encode("tasks.process_file", [argument], {}))


def used(server):
    """Bytes that the server's data takes."""
    with server.client(1) as client:
        client.execute_command("MEMORY", "PURGE")
        return client.info("memory")["used_memory"]


def test_an_item_takes_what_the_page_says(kind):
    """Waiting and running items cost no more than stated, and not much less."""
    with Server(kind) as server:
        engine = Engine(server.client(1), "files")
        engine.enqueue("warm", [item(ITEMS)])
        before = used(server)
        engine.enqueue("tenant-1", [item(number) for number in range(ITEMS)])
        waiting = used(server)
        leases = [lease for _ in range(10) for lease in engine.lease(count=100).items]
        running = used(server)
        engine.enqueue("tenant-2", [item(f"own-{number}") for number in range(ITEMS)])
        named = used(server)
        engine.client.close()
    measured = {
        "an item that waits": (waiting - before) / ITEMS,
        "the same, with an id": (named - running) / ITEMS,
        "an item that runs, besides": (running - waiting) / len(leases),
    }
    for row, size in measured.items():
        print(f"{kind}: {row}: {size:.0f} bytes")
        assert size <= stated(row, kind) * ROOM, row
        assert size >= stated(row, kind) * 0.5, f"{row}: the page may be proud of less"


def test_a_full_server_drains(kind):
    """Enqueues are refused, what keeps or ends a run is not; room lets all go on."""
    limits = ("--maxmemory", "6mb", "--maxmemory-policy", "noeviction")
    with Server(kind, *limits) as server:
        engine = Engine(server.client(1), "files")

        def fill(count):
            for number in range(0, 20_000, count):
                some = [item(f"{count}-{number + n}", "x" * 1000) for n in range(count)]
                engine.enqueue("acme", some)

        for count in (200, 1):  # a call needs memory for itself as well
            with pytest.raises(Refused):
                fill(count)
        (lease,) = engine.lease().items
        engine.renew(lease.item_id, lease.token)
        assert engine.ack(lease.item_id, lease.token).held
        for lease in engine.lease(count=500).items:
            assert engine.ack(lease.item_id, lease.token).held
        (lease,) = engine.lease().items
        engine.renew(lease.item_id, lease.token)
        engine.enqueue("acme", [item(10**9)])
        engine.client.close()
