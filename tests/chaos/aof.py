"""Reads an append-only file: what the scripts did to each item, in the order of the server.

The file is what the server itself wrote before it answered (`appendfsync always`), so it is a
witness that neither the library nor the workers can influence.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

Command = list[bytes]
TIME = b"#TS:"
"""Begin of an annotation with the time (`aof-timestamp-enabled`)."""


@dataclass
class Life:
    """An item from an enqueue to its end.

    Attributes:
        leases: Its tokens in order of lease.
        ends: Token -> how that lease ended: "acked", "dead", "timed out", "released", "retried".
        holders: Token -> worker that held it.
        late: Token -> seconds from its expiry to its end; negative when it ended sooner. The file
            tells whole seconds, rounded down.
    """

    leases: list[str] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    late: dict[str, float] = field(default_factory=dict)


def transactions(folder: Path) -> Iterator[tuple[int, list[Command]]]:
    """When and what each script wrote, one list a script; 0 where the file tells no time."""
    batch: list[Command] | None = None
    for path in sorted((folder / "appendonlydir").glob("*.incr.aof"), key=_number):
        second = 0
        for command in _commands(path.read_bytes()):
            name = command[0].upper()
            if name.startswith(b"#"):
                second = int(name.removeprefix(TIME)) if name.startswith(TIME) else second
            elif name == b"MULTI":
                batch = []
            elif name == b"EXEC":
                yield second, batch or []
                batch = None
            elif batch is None:
                yield second, [command]
            else:
                batch.append(command)


def lives(folder: Path, queue: str) -> dict[str, list[Life]]:
    """Item id -> its lives; more than one when its id was enqueued again after its end.

    Raises:
        AssertionError: The file contradicts the rules: an item leased twice at once, a lease ended
            by another token, a record that goes without its lease.
    """
    found: dict[str, list[Life]] = defaultdict(list)
    holders: dict[str, str] = {}
    expiries: dict[str, int] = {}
    for second, batch in transactions(folder):
        written = _Written(batch, f"vtrr:{queue}:")
        dropped = {token: holders.get(token) for token in written.deleted("lease")}
        _apply(written, found, holders)
        for token, item_id in dropped.items():
            found[item_id][-1].late[token] = second - expiries.pop(token) / 1000
        expiries.update((lease.token, lease.expires_ms) for lease in written.leased())
    assert not holders, f"leases left in the file: {holders}"
    return found


def ends(found: dict[str, list[Life]]) -> Counter[str]:
    """How many leases ended in which way."""
    return Counter(end for each in found.values() for life in each for end in life.ends.values())


def most_held(folder: Path, queues: Iterable[str]) -> dict[str, int]:
    """Worker -> most leases it ever held at once, of all queues together."""
    held: dict[str, str] = {}
    most: dict[str, int] = {}
    for _, batch in transactions(folder):
        written = [_Written(batch, f"vtrr:{queue}:") for queue in queues]
        for each in written:
            for token in each.deleted("lease"):
                held.pop(token, None)
            held.update((lease.token, lease.holder) for lease in each.leased())
        for holder, count in Counter(held.values()).items():
            most[holder] = max(count, most.get(holder, 0))
    return most


def most_running(folder: Path, queue: str) -> tuple[int, int]:
    """Most leases of one partition at once, and of the whole queue."""
    held: dict[str, str] = {}
    partition, total = 0, 0
    for _, batch in transactions(folder):
        written = _Written(batch, f"vtrr:{queue}:")
        for token in written.deleted("lease"):
            held.pop(token, None)
        leased = written.leased()
        held.update((lease.token, lease.partition) for lease in leased)
        if leased:
            partition = max(partition, *Counter(held.values()).values())
            total = max(total, len(held))
    return partition, total


@dataclass(frozen=True)
class _Lease:
    """A lease record as it was written, see `scripts/lib/hold_lease.lua`."""

    token: str
    item_id: str
    partition: str
    holder: str
    expires_ms: int


class _Written:
    """What one script wrote to the keys of one queue."""

    def __init__(self, batch: list[Command], prefix: str) -> None:
        self.calls = [
            (command[0].upper().decode(), command[1].decode().removeprefix(prefix), command[2:])
            for command in batch
            if len(command) > 1 and command[1].decode(errors="replace").startswith(prefix)
        ]

    def fields(self, name: str, key: str) -> list[str]:
        """Hash fields or members that calls of a command on a key name first."""
        return [rest[0].decode() for call, on, rest in self.calls if (call, on) == (name, key)]

    def deleted(self, key: str) -> list[str]:
        """Hash fields that were removed."""
        return [text.decode() for call, on, rest in self.calls if (call, on) == ("HDEL", key)
                for text in rest]  # fmt: skip

    def pushed(self) -> set[str]:
        """Items put into a backlog."""
        pushes = [rest for call, on, rest in self.calls
                  if call in {"RPUSH", "LPUSH"} and on.startswith("backlog:")]  # fmt: skip
        return {text.decode() for rest in pushes for text in rest}

    def stored(self) -> list[str]:
        """Items that are new: stored alone, or several by one call of a producer."""
        alone = self.fields("HSETNX", "task")
        if not any(on.startswith("recent:") for _, on, _ in self.calls):
            return alone
        several = [rest[::2] for call, on, rest in self.calls if (call, on) == ("HSET", "task")]
        return alone + [text.decode() for ids in several for text in ids]

    def leased(self) -> list[_Lease]:
        """Each lease record that was written, of a new or of a renewed lease."""
        leases = []
        for call, on, rest in self.calls:
            if call in {"HSET", "HSETNX"} and on == "lease":
                _, _, expiry, first, second, text = rest[1].split(b" ", 5)
                middle = int(first)
                last = middle + int(second)
                words = (rest[0], text[:middle], text[middle:last], text[last:])
                leases.append(_Lease(*(word.decode() for word in words), int(expiry)))
        return leases


def _apply(written: _Written, found: dict[str, list[Life]], holders: dict[str, str]) -> None:
    for item_id in written.stored():
        found[item_id].append(Life())
    removed, pushed = set(written.deleted("task")), written.pushed()
    dead = set(written.fields("HSET", "dead"))
    delayed = {rest[1].decode() for call, on, rest in written.calls
               if (call, on) == ("ZADD", "delayed")}  # fmt: skip
    counted = set(written.fields("HSET", "task"))
    for token in written.deleted("lease"):
        item_id = holders.pop(token)
        gone = item_id in removed
        removed.discard(item_id)
        if item_id in dead:
            end = "dead"
        elif item_id in pushed:
            end = "timed out" if item_id in counted else "released"
        else:
            end = "acked" if gone else "retried"
            assert gone or item_id in delayed, f"{item_id} went nowhere with its lease"
        found[item_id][-1].ends[token] = end
    assert not removed, f"records that went without a lease: {removed}"
    for lease in written.leased():
        token, item_id = lease.token, lease.item_id
        if token in holders:  # renewed
            assert holders[token] == item_id
            continue
        assert item_id not in holders.values(), f"{item_id} is leased twice at once"
        holders[token] = item_id
        found[item_id][-1].leases.append(token)
        found[item_id][-1].holders[token] = lease.holder


def _commands(data: bytes) -> Iterator[Command]:
    at = 0
    while at < len(data):
        end = data.index(b"\r\n", at)
        if data[at : at + 1] == b"#":  # an annotation
            yield [data[at:end]]
            at = end + 2
            continue
        count, at = int(data[at + 1 : end]), end + 2
        command = []
        for _ in range(count):
            end = data.index(b"\r\n", at)
            size = int(data[at + 1 : end])
            command.append(data[end + 2 : end + 2 + size])
            at = end + 2 + size + 2
        yield command


def _number(path: Path) -> int:
    return int(path.name.split(".")[-3])
