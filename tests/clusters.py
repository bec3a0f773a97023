"""Clusters for tests: three primaries with a replica each, all real, on loopback.

Invariant: every server ends with the context; a failover begins when a primary is killed.
"""

import contextlib
from typing import Any, Self

import redis
from redis.cluster import ClusterNode

from tests.servers import Kind, Server, free_port
from tests.waiting import eventually

SHARDS = 3
SLOTS = 16384
NODE_TIMEOUT_MS = 1000


class ClusterServer(Server):
    """One node; its bus has a port of its own, as the usual one may be out of range.

    Args:
        kind: "valkey" or "redis".
    """

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self.bus_port = 0

    def start(self) -> None:
        """Start as part of no cluster, or of the one its folder remembers."""
        self.bus_port = self.bus_port or free_port()
        self.args = (
            *("--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
            *("--cluster-port", str(self.bus_port), "--cluster-replica-validity-factor", "0"),
            *("--repl-diskless-sync-delay", "0"),
        )
        super().start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    def ask(self, *words: Any) -> Any:
        """Run a command on this node, wherever its keys belong."""
        with self.client(decode_responses=True) as client:
            return client.execute_command(*words)

    def node_id(self) -> str:
        """Return the name that the cluster knows it by."""
        return str(self.ask("CLUSTER", "MYID"))

    def is_primary(self) -> bool:
        """Tell whether it leads a shard, as far as it knows itself."""
        with contextlib.suppress(redis.ConnectionError):
            return bool(self.ask("ROLE")[0] == "master")
        return False

    def is_settled(self, nodes: int) -> bool:
        """Tell whether it knows so many nodes and that all slots are served."""
        text = self.ask("CLUSTER", "INFO")
        told = text if isinstance(text, dict) else dict(
            line.split(":") for line in text.split())  # fmt: skip
        return told["cluster_state"] == "ok" and int(told["cluster_known_nodes"]) == nodes


class Cluster:
    """Three shards; a context manager.

    Args:
        kind: "valkey" or "redis".

    Attributes:
        primaries: The servers that were primaries first, by the slots they have.
        replicas: Their replicas, in the same order.
    """

    def __init__(self, kind: Kind = "valkey") -> None:
        self.kind = kind
        self._stack = contextlib.ExitStack()
        self.primaries: list[ClusterServer] = []
        self.replicas: list[ClusterServer] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(ClusterServer(self.kind)) for _ in range(2 * SHARDS)]
            self.primaries, self.replicas = servers[:SHARDS], servers[SHARDS:]
            self._join()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of every node."""
        return [server.address for server in (*self.primaries, *self.replicas)]

    def client(self, **options: Any) -> redis.RedisCluster:
        """Return a client that was told of one node."""
        return redis.RedisCluster(startup_nodes=[ClusterNode(*self.addresses[0])], **options)

    def shard_of(self, key: str) -> int:
        """Return the number of the shard a key was in first."""
        return int(self.primaries[0].ask("CLUSTER", "KEYSLOT", key)) * SHARDS // SLOTS

    def wait_over(self, shard: int) -> None:
        """Wait until the replica of a shard leads it and the others know."""
        others = [each for each in self.primaries if each.is_running()]
        eventually(self.replicas[shard].is_primary, 30, "a new primary")
        for each in others:
            eventually(lambda e=each: e.is_settled(2 * SHARDS), 30, "a cluster that serves")

    def _join(self) -> None:
        """Make one cluster of servers that do not know each other."""
        for number, server in enumerate(self.primaries):
            slots = [-(-SLOTS * (number + more) // SHARDS) for more in (0, 1)]
            server.ask("CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1] - 1)
        for number, server in enumerate((*self.primaries, *self.replicas), 1):
            server.ask("CLUSTER", "SET-CONFIG-EPOCH", number)
        first = self.primaries[0]
        for server in (*self.primaries[1:], *self.replicas):
            first.ask("CLUSTER", "MEET", server.host, server.port, server.bus_port)
        for server in (*self.primaries, *self.replicas):
            eventually(lambda s=server: s.is_settled(2 * SHARDS), 30, "nodes that know each other")
        for primary, replica in zip(self.primaries, self.replicas, strict=True):
            replica.ask("CLUSTER", "REPLICATE", primary.node_id())
        for replica in self.replicas:
            eventually(lambda r=replica: r.ask("ROLE")[3] == "connected", 30, "a replica in step")


def migrate_slot(slot: int, source: ClusterServer, target: ClusterServer) -> None:
    """Move a slot key by key, as `redis-cli --cluster reshard` does."""
    begin_migration(slot, source, target)
    while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100):
        source.ask("MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", *keys)
    end_migration(slot, source, target)


def begin_migration(slot: int, source: ClusterServer, target: ClusterServer) -> None:
    """Tell both that the keys of a slot are on their way."""
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.node_id())
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.node_id())


def end_migration(slot: int, source: ClusterServer, target: ClusterServer) -> None:
    """Tell both that the slot has another owner."""
    for server in (target, source):
        server.ask("CLUSTER", "SETSLOT", slot, "NODE", target.node_id())


def migrate_slot_at_once(slot: int, source: ClusterServer, target: ClusterServer) -> None:
    """Move a slot in one step, as Valkey 9 can."""
    source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.node_id())
    eventually(lambda: "success" in str(source.ask("CLUSTER", "GETSLOTMIGRATIONS")), 20, "the move")
