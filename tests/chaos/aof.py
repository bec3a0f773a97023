"""Reads an append-only file: what the scripts did to each item, in the order of the server.

The file is what the server itself wrote before it answered (`appendfsync always`), so it is a
witness that neither the library nor the workers can influence.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Command = list[bytes]


@dataclass
class Life:
    """An item from an enqueue to its end.

    Attributes:
        leases: Its tokens in order of lease.
        ends: Token -> how that lease ended: "acked", "dead", "timed out", "released", "retried".
    """

    leases: list[str] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)


def transactions(folder: Path) -> Iterator[list[Command]]:
    """What each script wrote, one list a script."""
    batch: list[Command] | None = None
    for path in sorted((folder / "appendonlydir").glob("*.incr.aof"), key=_number):
        for command in _commands(path.read_bytes()):
            name = command[0].upper()
            if name == b"MULTI":
                batch = []
            elif name == b"EXEC":
                yield batch or []
                batch = None
            elif batch is None:
                yield [command]
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
    for batch in transactions(folder):
        _apply(_Written(batch, f"vtrr:{queue}:"), found, holders)
    assert not holders, f"leases left in the file: {holders}"
    return found


def ends(found: dict[str, list[Life]]) -> Counter[str]:
    """How many leases ended in which way."""
    return Counter(end for each in found.values() for life in each for end in life.ends.values())


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

    def leased(self) -> list[tuple[str, str]]:
        """Token and item of each lease record that was written."""
        pairs = []
        for call, on, rest in self.calls:
            if (call, on) == ("HSET", "lease"):
                _, _, _, length, _, text = rest[1].split(b" ", 5)
                pairs.append((rest[0].decode(), text[: int(length)].decode()))
        return pairs


def _apply(written: _Written, found: dict[str, list[Life]], holders: dict[str, str]) -> None:
    for item_id in written.fields("HSETNX", "task"):
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
    for token, item_id in written.leased():
        if token in holders:  # renewed
            assert holders[token] == item_id
            continue
        assert item_id not in holders.values(), f"{item_id} is leased twice at once"
        holders[token] = item_id
        found[item_id][-1].leases.append(token)


def _commands(data: bytes) -> Iterator[Command]:
    at = 0
    while at < len(data):
        if data[at : at + 1] == b"#":  # an annotation
            at = data.index(b"\r\n", at) + 2
            continue
        end = data.index(b"\r\n", at)
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
