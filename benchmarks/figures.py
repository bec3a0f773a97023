"""Figures that are the same in each run on a server of one kind: calls, bytes, memory.

A stored baseline, benchmarks/figures.json, says what they were; tests/bench/test_figures.py fails
when one is worse than that by more than its tolerance. ``make bench ARGS="--only figures
--accept"`` stores those of this run.
"""

from __future__ import annotations

import json
import uuid
from collections import deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import Table
from benchmarks.servercost import BODY, ID, memory_per_item
from vtrr_queue import Engine
from vtrr_queue.model import NewItem, TriggerBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import redis

    from benchmarks.plan import Plan

BASELINE = Path(__file__).with_name("figures.json")

COUNT, WIRE, MEMORY = "count", "bytes on the wire", "bytes of memory"
TOLERANCE = {COUNT: 0.0, WIRE: 0.02, MEMORY: 0.05}
"""Unit -> part by which a figure may be worse than its baseline."""

SLACK = {COUNT: 0.05, WIRE: 1.0, MEMORY: 4.0}
"""Unit -> amount by which it may be worse in any case: clocks have digits, allocators blocks."""

ITEMS = 20_000
PARTITIONS = 5_000
LIVES = 200


@dataclass(frozen=True)
class Figure:
    """One figure; less is better.

    Attributes:
        unit: One of :data:`TOLERANCE`.
        value: What was measured.
    """

    unit: str
    value: float


def measured(client: redis.Redis) -> dict[str, Figure]:
    """All figures of a server.

    Args:
        client: Server to use; its database is emptied.
    """
    found: dict[str, Figure] = {}
    for name, budget in (("direct", TriggerBudget()), ("trigger", TriggerBudget(4))):
        found |= _life(client, f"life, {name}", budget, {})
    found |= _life(client, "life, all limits", TriggerBudget(), {"share": 2.0, "cap": 9})
    found |= _many(client)
    found |= _memory(client)
    _empty(client)
    return found


def worse(found: dict[str, Figure], baseline: dict[str, float]) -> list[str]:
    """Which figures are worse than their baseline, or not in it, as sentences.

    Args:
        found: From :func:`measured`.
        baseline: Name -> value.
    """
    sentences = []
    for name, figure in found.items():
        allowed = baseline.get(name)
        if allowed is None:
            sentences.append(f"{name}: {figure.value:g}, not in the baseline")
            continue
        most = allowed * (1 + TOLERANCE[figure.unit]) + SLACK[figure.unit]
        if figure.value > most:
            sentences.append(f"{name}: {figure.value:g}, at most {most:g}")
    return sentences


def baseline(kind: str) -> dict[str, float]:
    """What is stored for servers of a kind: name -> value."""
    stored = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    return dict(stored.get(kind, {}))


def accept(kind: str, found: dict[str, Figure]) -> None:
    """Store these figures as the baseline of a kind of server."""
    stored = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    stored[kind] = {name: round(figure.value, 2) for name, figure in found.items()}
    BASELINE.write_text(json.dumps(stored, indent=2, sort_keys=True) + "\n")


def figures(plan: Plan) -> Iterator[Table]:
    """The figures beside their baseline."""
    found, before = measured(plan.client), baseline(plan.kind)
    if plan.accept:
        accept(plan.kind, found)
    yield Table(
        "Figures that are the same in each run",
        "Commands count those inside scripts; round trips are reads of the server from its socket; "
        "a body has 114 bytes, an id 36; the baseline is what the tests compare with.",
        ("figure", "value", "baseline"),
        [[name, figure.value, before.get(name)] for name, figure in found.items()],
    )


def _life(
    client: redis.Redis, name: str, budget: TriggerBudget, policy: Mapping[str, float]
) -> dict[str, Figure]:
    """What an item's life takes when each step is a call of its own."""
    _empty(client)
    engine = Engine(client, "figures")
    for number in range(10):
        engine.enqueue(f"p{number}", _items(number * 10, 10))
        if policy:
            engine.set_policy(f"p{number}", **policy)
    lives = Lives(engine, budget)
    lives.run(100)  # scripts are brought, buffers have grown
    spent = Meter(client).spent(partial(lives.run, LIVES))
    return {
        f"{name}: {what}": Figure(WIRE if what == "bytes" else COUNT, value / LIVES)
        for what, value in spent.items()
    }


class Lives:
    """Enqueues, leases and finishes items one by one.

    Args:
        engine: The queue.
        budget: How many triggers may stand.
    """

    def __init__(self, engine: Engine, budget: TriggerBudget) -> None:
        self._engine, self._budget = engine, budget
        self._triggers: deque[str] = deque()
        self._serial = 1000

    def run(self, count: int) -> None:
        """Let so many items live."""
        for _ in range(count):
            self._serial += 1
            items = _items(self._serial, 1)
            stored = self._engine.enqueue(f"p{self._serial % 10}", items, budget=self._budget)
            self._triggers += stored.wake.triggers
            used = self._triggers.popleft() if self._triggers else ""
            leased = self._engine.lease(trigger_id=used, budget=self._budget)
            (lease,) = leased.items
            settled = self._engine.ack(lease.item_id, lease.token, budget=self._budget)
            self._triggers += (*leased.wake.triggers, *settled.wake.triggers)


def _many(client: redis.Redis) -> dict[str, Figure]:
    """What an item takes when a call has many."""
    _empty(client)
    engine = Engine(client, "figures")
    engine.enqueue("warm", _items(0, 600))
    engine.lease(count=1)
    meter = Meter(client)
    found = {}
    for name, count, act in (
        ("enqueue of 1,000", 1_000, lambda: engine.enqueue("p", _items(1_000, 1_000))),
        ("lease of 64", 64, lambda: engine.lease(count=64)),
    ):
        spent = meter.spent(act)
        found[f"{name}: script calls"] = Figure(COUNT, spent["script calls"])
        found[f"{name}: commands"] = Figure(COUNT, spent["commands"])
        found[f"{name}: bytes an item"] = Figure(WIRE, spent["bytes"] / count)
    return found


def _memory(client: redis.Redis) -> dict[str, Figure]:
    """Bytes of the server for what waits and for partitions."""
    waiting = memory_per_item(client, ITEMS)
    uuids = [str(uuid.UUID(int=number)) for number in range(ITEMS)]
    generated = _used(client, 100, [NewItem(name, BODY) for name in uuids]) / ITEMS
    few = _used(client, 10, _items(0, PARTITIONS))
    active = (_used(client, PARTITIONS, _items(0, PARTITIONS)) - few) / PARTITIONS
    return {
        "waiting item, 36 byte id": Figure(MEMORY, waiting),
        "waiting item, generated id": Figure(MEMORY, generated),
        "active partition": Figure(MEMORY, active),
        "idle partition": Figure(MEMORY, _idle(client)),
    }


def _used(client: redis.Redis, partitions: int, items: Sequence[NewItem]) -> float:
    """Bytes that items take in so many partitions, with names of one length."""
    _empty(client)
    engine = Engine(client, "figures")
    engine.declare()
    before = _memory_used(client)
    size = len(items) // partitions
    for number in range(partitions):
        engine.enqueue(f"p{number:05}", items[number * size : (number + 1) * size])
    return _memory_used(client) - before


def _idle(client: redis.Redis) -> float:
    """Bytes for each partition that had an item and has none now, while another one is busy."""
    _empty(client)
    engine = Engine(client, "figures")
    engine.enqueue("busy", _items(0, 1_000))
    before = _memory_used(client)
    for number in range(PARTITIONS):
        engine.enqueue(f"p{number:05}", _items(1_000 + number, 1))
    left = PARTITIONS + 100
    while left > 0:
        for lease in engine.lease(count=min(left, 100)).items:
            engine.ack(lease.item_id, lease.token)
            left -= 1
    return (_memory_used(client) - before) / PARTITIONS


def _memory_used(client: redis.Redis) -> float:
    """Without the buffers of connections, which the server cuts down when it has time."""
    memory = client.info("memory")
    return float(memory["used_memory"] - memory["mem_clients_normal"])


def _empty(client: redis.Redis) -> None:
    client.execute_command("FLUSHALL", "SYNC")


def _items(first: int, count: int) -> list[NewItem]:
    return [NewItem(ID.format(first + number), BODY) for number in range(count)]


class Meter:
    """Reads what a server did during an act, less what the reading itself did.

    Args:
        client: The server.
    """

    _OWN_COMMANDS = 3  # two INFO before the act, one after it, until the commands are counted

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def spent(self, act: Callable[[], object]) -> dict[str, float]:
        """Round trips, commands, script calls and bytes of an act.

        Args:
            act: Called once. Its requests are small: a large one takes the server several reads.
        """
        commands, scripts = self._calls()
        text = self._info("stats")
        act()
        before, after = _fields(text), _fields(self._info("stats"))
        later_commands, later_scripts = self._calls()
        own_bytes = len(_wire_bulk(text)) + len(b"*2\r\n$4\r\nINFO\r\n$5\r\nstats\r\n")
        wire = ("total_net_input_bytes", "total_net_output_bytes")
        reads = "total_reads_processed"
        return {
            "round trips": after[reads] - before[reads] - 1,
            "commands": later_commands - commands - self._OWN_COMMANDS,
            "script calls": later_scripts - scripts,
            "bytes": sum(after[name] - before[name] for name in wire) - own_bytes,
        }

    def _calls(self) -> tuple[int, int]:
        counts = {name: int(entry["calls"]) for name, entry in
                  self._client.info("commandstats").items()}  # fmt: skip
        scripts = sum(count for name, count in counts.items() if name.startswith("cmdstat_eval"))
        return sum(counts.values()), scripts

    def _info(self, section: str) -> bytes:
        connection = self._client.connection_pool.get_connection()
        try:
            connection.send_command("INFO", section)
            text: bytes = connection.read_response(disable_decoding=True)
            return text
        finally:
            self._client.connection_pool.release(connection)


def _wire_bulk(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


def _fields(text: bytes) -> dict[str, int]:
    pairs = (line.partition(":")[::2] for line in text.decode().splitlines())
    return {name: int(value) for name, value in pairs if value.isdigit()}
