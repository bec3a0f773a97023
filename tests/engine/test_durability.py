"""An enqueue that asks for durability returns when it is confirmed, and only then."""

import contextlib
import os
import random
import signal
import threading
import time
from signal import SIGCONT, SIGSTOP

import pytest
import redis

from tests.proxy import Proxy
from tests.servers import Server
from tests.waiting import eventually
from vtrr_queue.engine import Engine
from vtrr_queue.errors import NotDurable, Refused, VTRRError
from vtrr_queue.model import Durability, NewItem, TriggerBudget

AOF = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
# A loaded disk takes seconds.
FSYNC, REPLICATED = Durability("fsync", 10), Durability("replicated", 10)
CRASHES = [
    pytest.param(3, id="few"),
    pytest.param(20, id="many", marks=[pytest.mark.chaos, pytest.mark.timeout(300)]),
]


@contextlib.contextmanager
def opened(server_or_proxy, **options):
    """An engine on a server of its own."""
    with redis.Redis.from_url(server_or_proxy.url()) as client:
        engine = Engine(client, "q", **options)
        yield engine
        engine.client.close()


def items(*ids):
    return [NewItem(item_id, b"x") for item_id in ids]


class Caller(threading.Thread):
    """One enqueue beside the test; `error` is what it raised."""

    def __init__(self, engine, entries, durability):
        super().__init__()
        self.engine, self.entries, self.durability = engine, entries, durability
        self.error: VTRRError | None = None
        self.over = threading.Event()

    def run(self):
        try:
            self.engine.enqueue("p", self.entries, durability=self.durability)
        except VTRRError as exc:
            self.error = exc


class SoftLimit(Exception):
    """What the handler of the test's signal raises."""


def interrupted(*_):
    raise SoftLimit


def follower(primary):
    return Server("valkey", "--replicaof", f"{primary.host} {primary.port}")


@pytest.fixture
def replicated():
    """A primary with a replica that follows it."""
    with (
        Server("valkey", "--repl-diskless-sync-delay", "0") as primary,
        follower(primary) as second,
    ):
        with second.client() as client:
            eventually(lambda: client.info("replication")["master_link_status"] == "up", 20, "link")
        yield primary, second
        if second.is_running():
            os.kill(second.pid, SIGCONT)


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_on_disk(policy):
    """With everysec that takes up to about a second, with always no time."""
    with Server("valkey", *AOF, "--appendfsync", policy) as server, opened(server) as engine:
        result = engine.enqueue("p", items("a", "b"), durability=FSYNC)
        assert result.item_ids == ("a", "b")
        with server.client() as client:
            assert client.info("persistence")["aof_pending_bio_fsync"] == 0


@pytest.mark.parametrize("crashes", CRASHES)
@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_what_was_confirmed_outlives_crashes(policy, crashes):
    """What was not can be enqueued again under its ids, and is there once."""
    chance = random.Random(f"{policy} {crashes}")
    confirmed, open_calls, over = set(), [], threading.Event()
    with Server("valkey", *AOF, "--appendfsync", policy) as server, opened(server) as engine:

        def produce():
            for number in range(10**9):
                if over.is_set():
                    return
                ids = [f"{number}-{n}" for n in range(chance.choice((1, 5, 600)))]
                try:
                    engine.enqueue("p", items(*ids), durability=FSYNC)
                    confirmed.update(ids)
                except VTRRError:
                    open_calls.append(ids)

        producer = threading.Thread(target=produce)
        producer.start()
        for _ in range(crashes):
            seen = len(confirmed)
            eventually(lambda seen=seen: len(confirmed) > seen, 20, "confirmed items")
            over.wait(chance.uniform(0, 0.3))
            server.kill()
            server.start()
        over.set()
        producer.join()
        with server.client() as client:
            kept = {item_id.decode() for item_id in client.hkeys("vtrr:q:task")}
            assert confirmed - kept == set()
            for ids in open_calls:
                engine.enqueue("p", items(*ids))
            kept = confirmed | {item_id for ids in open_calls for item_id in ids}
            assert client.hlen("vtrr:q:task") == client.llen("vtrr:q:backlog:p") == len(kept)


def test_not_on_disk_in_time():
    """The error names the ids, and the items are there."""
    with Server("valkey", *AOF, "--appendfsync", "no") as server, opened(server) as engine:
        with pytest.raises(NotDurable, match=r"not within 0.3 s \(stored: 'a', 'b'\)") as caught:
            engine.enqueue("p", items("a", "b"), durability=Durability("fsync", 0.3))
        assert caught.value.item_ids == ("a", "b")
        assert [lease.item_id for lease in engine.lease(count=9).items] == ["a", "b"]


def test_a_server_that_cannot_confirm_refuses_before_anything_is_stored(server, redis_client):
    """Without an append-only file, or so old that it has no WAITAOF."""
    with opened(server) as engine:
        why = "Redis 7.2" if server.kind == "redis" else "append-only file"
        with pytest.raises(Refused, match=why):
            engine.enqueue("p", items("a"), durability=FSYNC)
    assert redis_client.keys("*") == []


def test_a_user_that_may_not_ask_what_the_server_can():
    """The wait itself tells then."""
    with Server("valkey", *AOF, "--appendfsync", "always") as durable, durable.client() as client:
        client.acl_setuser(
            "app", enabled=True, nopass=True, keys=["*"], channels=["*"], categories=["+@all"],
            commands=["-info", "-command"],
        )  # fmt: skip
        address = durable.url().replace("redis://", "redis://app:any@")
        with redis.Redis.from_url(address) as limited:
            engine = Engine(limited, "q")
            assert engine.enqueue("p", items("a"), durability=FSYNC).item_ids == ("a",)
            engine.client.close()


def test_on_a_replica(replicated):
    primary, second = replicated
    with opened(primary) as engine:
        engine.enqueue("p", items("a"), durability=REPLICATED)
        with second.client() as client:
            assert client.hexists("vtrr:q:task", "a")


def test_without_a_replica(server, redis_client):
    """Nobody confirms; the items are stored and their triggers asked for."""
    with opened(server) as engine:
        begin = time.monotonic()
        with pytest.raises(NotDurable) as caught:
            engine.enqueue("p", items("a"), durability=Durability("replicated", 0.2),
                           budget=TriggerBudget(4))  # fmt: skip
        assert time.monotonic() - begin >= 0.2
        assert len(caught.value.enqueued.wake.triggers) == 1
    assert redis_client.hexists("vtrr:q:task", "a")
    redis_client.flushdb()


@pytest.mark.parametrize("lost", [False, True], ids=["", "a lost reply"])
def test_a_replica_that_stands_still(replicated, lost):
    """Also when the call was repeated on another connection, which has written nothing else."""
    primary, second = replicated
    with Proxy((primary.host, primary.port)) as proxy, opened(proxy) as engine:
        engine.enqueue("p", items("warm"), durability=REPLICATED)
        os.kill(second.pid, SIGSTOP)
        if lost:
            proxy.drop_replies(every=2)
            proxy.let_reply_pass("EVALSHA")  # so that the next one is lost
        with pytest.raises(NotDurable):
            engine.enqueue("p", items("a"), durability=Durability("replicated", 0.5))
        assert proxy.dropped == lost
        proxy.heal()
        os.kill(second.pid, SIGCONT)
        engine.enqueue("p", items("b"), durability=REPLICATED)


def test_what_was_replicated_outlives_the_primary(replicated):
    primary, second = replicated
    confirmed: list[str] = []
    over = threading.Event()
    with opened(primary, socket_timeout=0.5) as engine:

        def produce():
            with contextlib.suppress(VTRRError):
                while not over.is_set():
                    item_id = f"i{len(confirmed)}"
                    engine.enqueue("p", items(item_id), durability=REPLICATED)
                    confirmed.append(item_id)

        producer = threading.Thread(target=produce)
        producer.start()
        eventually(lambda: len(confirmed) > 200, 20, "confirmed items")
        primary.kill()
        producer.join()
        over.set()
    with second.client() as client:
        client.replicaof("NO", "ONE")
        kept = {item_id.decode() for item_id in client.hkeys("vtrr:q:task")}
    assert set(confirmed) <= kept


def test_a_long_wait_that_breaks_off_stores_nothing_twice():
    """The repeat is known for what it is, though the item has meanwhile run and is gone."""
    with (
        Server() as server,
        Proxy((server.host, server.port)) as proxy,
        opened(server) as worker,
        opened(proxy, socket_timeout=0.1) as engine,
    ):
        caller = Caller(engine, items("a"), Durability("replicated", 3.5))
        caller.start()
        (lease,) = eventually(lambda: worker.lease().items)
        assert worker.ack(lease.item_id, lease.token).held
        caller.over.wait(2.7)  # longer than a call is remembered that waits for nothing
        proxy.drop_replies(commands=("WAIT",))
        eventually(lambda: proxy.dropped)
        proxy.heal()
        caller.join()
        assert isinstance(caller.error, NotDurable)
        assert worker.lease().items == ()


def test_a_primary_that_becomes_a_replica_during_the_wait(replicated):
    """What it had stored is gone with its data; the call goes to the new primary."""
    primary, _ = replicated
    with Server() as old, Proxy((old.host, old.port)) as proxy, opened(proxy) as engine:
        caller = Caller(engine, items("a"), Durability("replicated", 5))
        caller.start()
        with old.client() as client:
            eventually(lambda: client.exists("vtrr:q:task"))
            proxy.upstream = (primary.host, primary.port)
            client.replicaof(primary.host, primary.port)
        caller.join()
        assert caller.error is None
        with primary.client() as client:
            assert client.hkeys("vtrr:q:task") == [b"a"]


class Replacing(Proxy):
    """Another server takes over when the next script has been answered.

    Attributes:
        then: Its address, None as long as nothing is to happen.
    """

    then: tuple[str, int] | None = None

    def let_reply_pass(self, _command):
        if self.then is None or self.upstream == self.then:
            cut, self.then = self.then is not None, None
            return not cut
        self.upstream = self.then
        return True


def test_a_failover_inside_a_bulk_call(replicated):
    """The first part was on the old primary only; the call must not end as if it were safe."""
    primary, second = replicated
    ids = [f"i{number}" for number in range(501)]
    with Server() as old, Replacing((old.host, old.port)) as proxy, opened(proxy) as engine:
        engine.enqueue("p", items("warm"))
        proxy.then = (primary.host, primary.port)
        engine.enqueue("p", items(*ids), durability=REPLICATED)
        assert proxy.then is None
        with second.client() as client:
            assert {item_id.decode() for item_id in client.hkeys("vtrr:q:task")} == set(ids)


def test_a_bulk_call_nobody_confirms_waits_once():
    """All of it is stored, and all of it named."""
    with Server() as server, opened(server) as engine:
        begin = time.monotonic()
        with pytest.raises(NotDurable) as caught:
            engine.enqueue(
                "p", items(*map(str, range(1501))), durability=Durability("replicated", 0.5)
            )
        assert time.monotonic() - begin < 1
        assert len(caught.value.item_ids) == 1501 == len(engine.known(caught.value.item_ids))


def test_the_wait_costs_no_round_trip_of_its_own(replicated):
    """A confirmation that is there at once comes with the reply of the script."""
    primary, _ = replicated
    with Proxy((primary.host, primary.port)) as proxy, opened(proxy) as engine:
        engine.enqueue("p", items("a"), durability=REPLICATED)
        proxy.stall_replies(0.3, commands=("EVALSHA", "EVAL"))
        before = proxy.seen.total()
        caller = Caller(engine, items("b"), REPLICATED)
        caller.start()
        eventually(lambda: proxy.seen.total() == before + 2, 0.25, "script and wait sent at once")
        caller.join()
        assert caller.error is None


def test_a_signal_held_back_ends_the_wait():
    """In a pool child a soft limit must not stand in line behind a long wait."""
    with Server() as server, opened(server) as engine:
        engine.client.mask_signals = True
        before = signal.signal(signal.SIGUSR1, interrupted)
        me = threading.main_thread().ident
        timer = threading.Timer(0.3, signal.pthread_kill, (me, signal.SIGUSR1))
        begin = time.monotonic()
        try:
            timer.start()
            with pytest.raises(SoftLimit):
                engine.enqueue("p", items("a"), durability=Durability("replicated", 20))
            assert time.monotonic() - begin < 3
        finally:
            timer.join()
            signal.signal(signal.SIGUSR1, before)
        assert engine.known(["a"]) == ["a"]
