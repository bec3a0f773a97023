"""A queue on a cluster of three shards: its keys stay together and are found where they are."""

import asyncio
import contextlib
import threading

import pytest
import redis

from tests.callers import define, lease_all, make_queue
from tests.clusters import begin_migration, end_migration, migrate_slot, migrate_slot_at_once
from tests.queues import audited_engine, drain, finish, items
from tests.waiting import eventually
from vtrr_queue.engine import Engine
from vtrr_queue.errors import ArgumentTypeError, Unavailable
from vtrr_queue.inspector import Inspector

pytestmark = pytest.mark.compat

MANY = 10_000


@pytest.fixture
def engine(cluster_client):
    with audited_engine(cluster_client, wake=True) as engine:
        yield engine


def all_keys(cluster_client):
    """Names of all keys of the cluster, by the node that has them."""
    found = {}
    for node in cluster_client.get_primaries():
        with cluster_client.get_redis_connection(node).client() as client:
            found[node.name] = sorted(key.decode() for key in client.scan_iter(count=1000))
    return {name: keys for name, keys in found.items() if keys}


def servers_of(cluster, engine):
    """The primary that has a queue, and another."""
    primaries = [each for each in (*cluster.primaries, *cluster.replicas) if each.is_primary()]
    (owner,) = (each for each in primaries if each.address == engine.client.place.address)
    return owner, next(each for each in primaries if each is not owner)


def insist(call):
    """Repeat a call that may be refused for some seconds; what it returned in the end."""

    def once():
        with contextlib.suppress(Unavailable):
            return [call()]
        return []

    return eventually(once, 20, "an answer")[0]


def test_the_keys_of_a_queue_are_on_one_node(cluster_client, engine):
    """Whatever is in use: partitions, priorities, delays, leases, dead letters, triggers."""
    engine.set_policy("A", cap=1, share=2)
    engine.enqueue("A", items("a1", "a2"))
    engine.enqueue("B", items("b1", delay_ms=60_000))
    for lease in engine.lease(count=2).items:
        engine.bury(lease.item_id, lease.token, "a test")
    ((node, names),) = all_keys(cluster_client).items()
    assert node == ":".join(map(str, engine.client.place.address))
    assert len(names) > 8
    assert {name[:9] for name in names} == {"vtrr:{q}:"}


@pytest.mark.parametrize(
    "options",
    [
        {"decode_responses": True},
        {"protocol": 3},
        {"address_remap": lambda address: ("localhost", address[1])},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_client_with_its_own_settings_works(cluster, cluster_client, options):
    """Bodies stay bytes, and scripts run on the primary, whatever the client does."""
    with cluster.client(**options) as client, audited_engine(client) as engine:
        engine.client.place.is_lost = True  # then it is looked up
        engine.enqueue("ключ", items("один"))
        assert [lease.body for lease in drain(engine)] == ["один".encode()]
        if "address_remap" in options:
            assert engine.client.place.address[0] == "localhost"


def test_what_the_client_calls_on_new_connections_is_called(cluster, cluster_client):
    """As by the client itself."""
    met = []

    def meet(connection):
        connection.on_connect()
        met.append(connection.port)

    with cluster.client(redis_connect_func=meet) as client, audited_engine(client) as engine:
        met.clear()
        engine.enqueue("A", items("a1"))
        assert met == [engine.client.place.address[1]]
        assert len(drain(engine)) == 1


def test_queues_are_spread_over_the_nodes(cluster_client):
    """Each name has its own slot, so twenty queues are not on one node."""
    for number in range(20):
        with audited_engine(cluster_client, f"queue{number}") as engine:
            engine.enqueue("A", items("a1"))
    assert len(all_keys(cluster_client)) == 3


def test_ten_thousand_items_come_in_the_same_order_as_from_one_server(engine, redis_client):
    """All of them, once each."""
    orders = []
    with audited_engine(redis_client) as single:
        for each in (single, engine):
            for number in range(MANY // 500):
                each.enqueue(f"p{number % 7}", items(*(f"{number}-{n}" for n in range(500))))
            orders.append([lease.item_id for lease in drain(each)])
    assert len(set(orders[1])) == MANY
    assert orders[0] == orders[1]


def test_a_cap_holds(engine):
    """Items above it wait until one of their partition has ended."""
    engine.set_policy("A", cap=2)
    engine.enqueue("A", items("a1", "a2", "a3"))
    leases = engine.lease(count=3).items
    assert [lease.item_id for lease in leases] == ["a1", "a2"]
    assert engine.lease().items == ()
    assert finish(engine, leases) == [True, True]
    assert [lease.item_id for lease in drain(engine)] == ["a3"]


def test_an_expired_lease_comes_back(cluster_client):
    """With its timeout counted, and fenced against its first holder."""
    with audited_engine(cluster_client, lease_seconds=0.05) as engine:
        engine.enqueue("A", items("a1"))
        (first,) = engine.lease().items
        eventually(lambda: engine.reclaim().count, 5, "an expired lease")
        (second,) = engine.lease().items
        assert (second.item_id, second.timeouts) == ("a1", 1)
        assert not engine.ack(first.item_id, first.token).held
        assert engine.ack(second.item_id, second.token).held


def test_workers_are_woken(engine):
    """What is published on any node is heard, also after the slot's owner has changed."""
    heard = []

    def listen():
        with contextlib.suppress(Unavailable):
            for hint in engine.client.hear(engine.keys.wake_channel):
                heard.append(hint)
                if hint == b"ready":
                    return

    listener = threading.Thread(target=listen)
    listener.start()
    eventually(lambda: heard, 5, "a subscription")
    engine.enqueue("A", items("a1"))
    listener.join(5)
    assert heard[-1] == b"ready"
    assert len(drain(engine)) == 1


def test_coroutines_enqueue(cluster_client):
    """`aqueue` uses connections of its own to the same node."""
    vtrr = make_queue(cluster_client)
    work = define(vtrr)

    async def calls():
        await asyncio.gather(*(work.aqueue(f"p{n}", [{"id": f"i{n}"}]) for n in range(50)))
        await vtrr.aclose()

    asyncio.run(calls())
    assert {lease.item_id for lease in lease_all(vtrr)} == {f"i{n}" for n in range(50)}


def test_a_client_of_coroutines_is_refused():
    """Its settings can't be taken over; nobody has to have one."""
    with pytest.raises(ArgumentTypeError, match=r"must be a redis\.Redis or a redis\.RedisCluster"):
        Engine(redis.asyncio.RedisCluster(host="localhost"), "q")


def test_a_redirection_is_followed_within_the_call(cluster, engine):
    """The replica takes over in good order: no call fails, on threads or in coroutines."""
    vtrr = make_queue(cluster.client(), name="q")
    work = define(vtrr)
    engine.enqueue("A", items("a1"))
    owner, _ = servers_of(cluster, engine)
    heirs = zip((*cluster.primaries, *cluster.replicas), (*cluster.replicas, *cluster.primaries),
                strict=True)  # fmt: skip
    heir = next(heir for each, heir in heirs if each is owner)

    async def calls():
        await work.aqueue("A", [{"id": "a2"}])
        heir.ask("CLUSTER", "FAILOVER")
        eventually(heir.is_primary, 20, "the replica in its place")
        return await work.aqueue("A", [{"id": "a3"}])

    assert asyncio.run(calls()) == ["a3"]
    assert engine.client.place.address == owner.address
    assert [lease.item_id for lease in drain(engine)] == ["a1", "a2", "a3"]
    assert engine.client.place.address == heir.address
    assert vtrr.engine.client.place.address == heir.address


def test_a_slot_that_moves_key_by_key_stands_still(cluster, engine):
    """Calls are refused before they begin, whatever has moved already; then all goes on."""
    engine.enqueue("A", items("a1", "a2"))
    (lease,) = engine.lease().items
    source, target = servers_of(cluster, engine)
    slot = engine.client.place.slot
    begin_migration(slot, source, target)
    calls = (
        engine.lease,
        lambda: engine.ack(lease.item_id, lease.token),
        lambda: engine.enqueue("B", items("b1")),
    )
    for name in ("", *source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)):
        if name:
            source.ask("MIGRATE", target.host, target.port, name, 0, 5000)
        for call in calls:
            with pytest.raises(Unavailable):
                call()
    end_migration(slot, source, target)
    assert engine.ack(lease.item_id, lease.token).held
    assert [lease.item_id for lease in drain(engine)] == ["a2"]
    assert engine.client.place.address == target.address


def serve_all(engine, served, count):
    """Lease and finish until so many items have been served, by whomever."""
    while len(served) < count:
        leases = insist(lambda: engine.lease(count=3)).items
        for lease in leases:
            assert insist(lambda x=lease: engine.ack(x.item_id, x.token)).held
        served.extend(lease.item_id for lease in leases)


@pytest.mark.parametrize("move", [migrate_slot, migrate_slot_at_once])
def test_a_slot_moves_under_load(cluster, engine, move):
    """Nothing is lost and nothing runs twice, whether keys move one by one or all at once."""
    if move is migrate_slot_at_once and cluster.kind == "redis":
        pytest.skip("moves at once: Valkey 9 or later")
    for number in range(10):
        engine.enqueue(f"p{number}", items(*(f"{number}-{n}" for n in range(100))))
    served = []
    threads = [threading.Thread(target=serve_all, args=(engine, served, 1000)) for _ in range(2)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(served) > 100, 10, "served items")
    source, target = servers_of(cluster, engine)
    move(engine.client.place.slot, source, target)
    for thread in threads:
        thread.join(40)
    assert len(served) == len(set(served)) == 1000
    assert insist(engine.lease).items == ()
    assert engine.client.place.address == target.address


def test_the_doctor_looks_at_the_node(engine):
    """It finds what it finds on a single server, and no fault of the cluster."""
    engine.enqueue("A", items("a1"))
    codes = {finding.code for finding in Inspector(engine).doctor()}
    assert codes == {"no-aof"}
    assert Inspector(engine).depth().waiting == 1
    drain(engine)


def test_nodes_that_have_gone_are_not_asked_for_ever(cluster, engine):
    """What is known of the cluster is what it last told, and where the client began."""
    place = engine.client.place
    place._nodes = [("127.0.0.1", 1), *place._nodes]  # nobody listens there
    place.is_lost = True
    engine.enqueue("A", items("a1"))
    assert set(place._nodes) <= set(cluster.addresses)
    drain(engine)
