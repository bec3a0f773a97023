"""Finds the node of a cluster that has a queue's keys, and finds it again when it has changed.

Invariants: all keys of a queue are in one slot, so one node serves the queue at a time; a client
is only read when the queue is made; only :meth:`SlotPlace.find` talks to the cluster. No lock is
held anywhere, because a pool process may be forked meanwhile: each change is one assignment, and
of two lookups at once either is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import redis
from redis.exceptions import AskError, MovedError
from redis.exceptions import ConnectionError as RedisConnectionError

from vtrr_queue.pool import Place, is_valkey, private_pool

if TYPE_CHECKING:
    from redis.cluster import ClusterNode
    from redis.connection import ConnectionPool

    from vtrr_queue.keys import QueueKeys

NODES_ASKED = 4
"""Most nodes that one lookup asks; each may cost a whole timeout."""

Address = tuple[str, int]


class Range(NamedTuple):
    """Slots that one primary has, and the addresses of its shard, the primary's first."""

    first: int
    last: int
    members: list[Address]


def is_cluster(client: object) -> bool:
    """Whether a client is one of a cluster, where the keys of a queue need a hash tag."""
    return isinstance(client, redis.RedisCluster) or is_valkey(client, "ValkeyCluster")


def place_of(client: object, keys: QueueKeys, socket_timeout: float) -> Place:
    """Where a user's client finds the keys of a queue.

    Args:
        client: The user's ``redis.Redis`` or ``redis.RedisCluster``, or those of valkey-py.
        keys: The queue's keys.
        socket_timeout: Bound on connecting and on one reply, s.

    Raises:
        ArgumentTypeError: It is none of these.
        ArgumentError: It is bound to one connection, which cannot be shared.
    """
    if is_cluster(client):
        return SlotPlace(cast("redis.RedisCluster", client), keys, socket_timeout)
    return Place(private_pool(client, socket_timeout))


class SlotPlace(Place):
    """The node that has the slot of a queue.

    Args:
        client: The user's client; what it knows of the cluster is taken over.
        keys: The queue's keys.
        socket_timeout: Bound on connecting and on one reply, s.
    """

    def __init__(self, client: redis.RedisCluster, keys: QueueKeys, socket_timeout: float) -> None:
        manager: Any = client.nodes_manager
        self.slot = int(client.keyslot(keys["schema"]))
        nodes = list(manager.nodes_cache.values())
        owners = manager.slots_cache.get(self.slot)  # the primary first
        self.is_lost = not owners
        get: Any = getattr(client, "get_valkey_connection", None) or client.get_redis_connection
        self._remap = manager.remap_host_port
        self._start = {_address(each) for each in getattr(client, "startup_nodes", ())}
        self._nodes = [_address(each) for each in nodes]
        pool = private_pool(get((owners or nodes)[0]), socket_timeout)
        # The client's own function asks for READONLY and calls the user's.
        pool.connection_kwargs["redis_connect_func"] = getattr(client, "user_on_connect_func", None)
        super().__init__(pool)

    @property
    def address(self) -> Address:
        """Host and port of the node."""
        settings = self.pool.connection_kwargs
        return str(settings["host"]), int(settings["port"])

    def failed(self, failure: Exception) -> bool:
        """Go where a redirection says; after anything else the cluster is asked."""
        moved_to = _moved_to(failure)
        if moved_to is None:
            self.is_lost = True
            return _is(failure, "ASK", AskError)  # the slot is moving: stand still meanwhile
        self._go(self._remap(moved_to[0] or self.address[0], moved_to[1]))
        return True

    def find(self) -> None:
        """Ask nodes who has the slot, the one in use last: it may be cut off from the others."""
        if not self.is_lost:
            return
        self.is_lost = False  # before it is looked up: a failure meanwhile must not be forgotten
        last: Exception | None = None
        others = [each for each in self._nodes if each != self.address]
        for node in [*others, self.address][:NODES_ASKED]:
            self._nodes = [*(each for each in self._nodes if each != node), node]
            try:
                ranges = self._ask(node)
            except (redis.RedisError, OSError) as exc:
                last = exc
                continue
            known = self._start | {self._remap(*each) for told in ranges for each in told.members}
            self._nodes = [*(known - {*self._nodes}), *(n for n in self._nodes if n in known)]
            for told in ranges:
                if told.first <= self.slot <= told.last:
                    self._go(self._remap(*told.members[0]))
                    return
        self.is_lost = True
        raise RedisConnectionError(f"no node knows who has slot {self.slot}") from last

    def _go(self, address: Address) -> None:
        if address != self.address:
            retired, self.pool = self.pool, self._pool_of(address)
            retired.disconnect(inuse_connections=False)

    def _pool_of(self, address: Address) -> ConnectionPool:
        settings = {**self.pool.connection_kwargs, "host": address[0], "port": address[1]}
        return redis.ConnectionPool(connection_class=self.pool.connection_class, **settings)

    def _ask(self, node: Address) -> list[Range]:
        pool = self._pool_of(node)
        try:
            reply = redis.Redis(connection_pool=pool).execute_command("CLUSTER", "SLOTS")
        finally:
            pool.disconnect()
        return [
            Range(first, final, [(_host(host) or node[0], port) for host, port, *_ in members])
            for first, final, *members in reply
        ]


def _address(node: ClusterNode) -> Address:
    return str(node.host), int(node.port)


def _host(name: bytes | None) -> str:
    """Empty when the node that is asked does not know a name for itself or does not tell one."""
    return "" if name in {None, b"", b"?"} else name.decode()


def _moved_to(failure: Exception) -> Address | None:
    """Host, perhaps empty, and port that a MOVED names."""
    if not _is(failure, "MOVED", MovedError):
        return None
    host, _, port = str(failure).split()[-1].rpartition(":")
    return host, int(port)


def _is(failure: Exception, word: str, kind: type[Exception]) -> bool:
    """Whether it is a redirection; releases of redis-py before 5.2 have no class for it here."""
    exactly = type(failure) is kind  # MOVED is a kind of ASK
    return exactly or str(failure).startswith(f"{word} ")
