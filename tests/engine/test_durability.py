"""An enqueue that asks for durability returns when it is confirmed, and only then."""

import contextlib
import os
import random
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


def follower(primary):
    return Server("valkey", "--replicaof", f"{primary.host} {primary.port}")


@pytest.fixture
def replicated():
    """A primary with a replica that follows it."""
    with (
        Server() as primary,
        Server("valkey", "--replicaof", f"127.0.0.1 {primary.port}") as second,
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
