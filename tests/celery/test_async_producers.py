"""Coroutines enqueue as blocking callers do, and the event loop goes on meanwhile."""

import asyncio
import contextlib
import gc
import ssl
import time
from datetime import timedelta

import pytest
import redis
from celery import Celery
from redis.sentinel import Sentinel

from tests.callers import define, lease_all, make_queue, snapshot
from tests.proxy import Proxy
from tests.sentinels import MASTER, Watched
from tests.servers import Server
from tests.waiting import eventually
from vtrr_queue import (
    ArgumentError,
    ArgumentTypeError,
    BacklogFull,
    DuplicateItem,
    EnqueueInterrupted,
    NotDurable,
    PayloadError,
    Refused,
    Unavailable,
    VTRRQueue,
)
from vtrr_queue.async_client import AsyncClients
from vtrr_queue.async_pool import MOST_CONNECTIONS, async_pools
from vtrr_queue.audit import read_stored
from vtrr_queue.client import ScriptClient
from vtrr_queue.keys import QueueKeys
from vtrr_queue.pool import private_pool

BLOCKED_SECONDS = 0.1
"""Longest time for which a call may keep the event loop, s."""

BAD_CALLS = {
    "partition": ((None, [{}]), {}, "partition_key"),
    "on_duplicate": (("acme", [{}]), {"on_duplicate": "maybe"}, "on_duplicate"),
    "durability": (("acme", [{}]), {"durability": "fast"}, "durability"),
    "tasks": (("acme", {"args": []}), {}, "tasks"),
    "weight": (("acme", [{}, {"weight": 0}]), {}, r"tasks\[1\]"),
    "in a long call": (("acme", [*({} for _ in range(200)), {"args": 5}]), {}, r"tasks\[200\]"),
    "payload": (("acme", [{"args": [object()]}]), {}, "args"),
}


@contextlib.asynccontextmanager
async def watched_loop():
    """Measure how long the event loop was kept at most, while other things run; a list of it."""
    longest = [0.0]

    async def watch():
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)
            longest[0] = max(longest[0], time.monotonic() - before - 0.005)

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    yield longest
    watcher.cancel()


@pytest.fixture
def proxy(server):
    with Proxy((server.host, server.port)) as proxy:
        yield proxy


def open_queue(url, **options):
    """A queue with its task on an address, its connections warm."""
    with redis.Redis.from_url(url) as client:
        vtrr = make_queue(client, **options)
    vtrr.work = define(vtrr)
    assert vtrr.work.celery_task.name == vtrr.work.name  # configures the app
    return vtrr


@pytest.fixture
def queue(server):
    return open_queue(server.url())


def ids_of(vtrr):
    return [lease.item_id for lease in lease_all(vtrr)]


@pytest.mark.parametrize(("given", "options", "names"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_input_is_refused_as_by_the_blocking_call(queue, redis_client, given, options, names):
    """The same error with the same text, and nothing changed."""
    before = snapshot(redis_client)
    errors = (ArgumentError, ArgumentTypeError, PayloadError)
    with pytest.raises(errors, match=names) as awaited:
        asyncio.run(queue.work.aqueue(*given, **options))
    with pytest.raises(errors) as blocking:
        queue.work.queue(*given, **options)
    assert type(awaited.value) is type(blocking.value)
    assert str(awaited.value).split(" at 0x")[0] == str(blocking.value).split(" at 0x")[0]
    assert snapshot(redis_client) == before


def records(queue):
    """What is stored of each item, without since when it waits."""
    stored = read_stored(queue.engine.client, queue.engine.keys)
    return stored.records, stored.priorities


def test_what_is_stored_is_what_the_blocking_call_stores(server, queue, redis_client):
    """Records, order, weights and priorities are the same, byte for byte; but not the moment."""
    entries = [{"id": "i1", "args": [1]}, {"id": "i2", "weight": 3}, {"id": "i3", "priority": 0}]
    queue.work.queue("acme", entries)
    blocking = records(queue)
    lists = redis_client.lrange("vtrr:files:backlog:acme", 0, -1)
    redis_client.flushall()
    assert asyncio.run(queue.work.aqueue("acme", entries)) == ["i1", "i2", "i3"]
    assert records(queue) == blocking
    assert redis_client.lrange("vtrr:files:backlog:acme", 0, -1) == lists
    assert ids_of(queue) == ["i3", "i1", "i2"]


def test_aapply_async_takes_what_apply_async_takes(queue):
    """A partition, a countdown, an id, a link; bad values are refused by name."""

    async def call():
        first = await queue.work.aapply_async(
            [1], {"b": 2}, partition_key="acme", task_id="now", link=queue.work.si().set(
                partition_key="acme"))  # fmt: skip
        later = await queue.work.aapply_async(partition_key="acme", countdown=3600)
        with pytest.raises(ArgumentTypeError, match="partition_key"):
            await queue.work.aapply_async([1])
        with pytest.raises(ArgumentError, match="time_limit"):
            await queue.work.aapply_async([1], partition_key="acme", time_limit=-1)
        return first.id, later.id

    first, later = asyncio.run(call())
    assert first == "now"
    assert ids_of(queue) == ["now"]
    assert queue.inspector.depth().delayed == 1, later


def test_errors_of_the_queue_are_the_same(server):
    """Known ids, a full backlog, a durability that is not confirmed."""
    vtrr = open_queue(server.url(), max_backlog=2)

    async def call():
        await vtrr.work.aqueue("acme", [{"id": "i1"}])
        with pytest.raises(DuplicateItem):
            await vtrr.work.aqueue("acme", [{"id": "i1"}], on_duplicate="error")
        assert await vtrr.work.aqueue("acme", [{"id": "i1"}]) == ["i1"]
        with pytest.raises(BacklogFull):
            await vtrr.work.aqueue("acme", [{}, {}])
        with pytest.raises(NotDurable):
            await vtrr.work.aqueue("bolt", [{"id": "b"}], durability="replicated",
                                   durability_timeout=0.2)  # fmt: skip

    asyncio.run(call())
    assert sorted(ids_of(vtrr)) == ["b", "i1"]


def test_a_policy_function_is_asked_off_the_loop(server):
    """It may ask a database; its answer is stored before the items."""

    def ask(partition):
        time.sleep(0.3)
        return {"max_backlog": 1}

    vtrr = open_queue(server.url(), policy=ask)

    async def call():
        async with watched_loop() as kept:
            with pytest.raises(BacklogFull):
                await vtrr.work.aqueue("acme", [{}, {}])
        return kept[0]

    assert asyncio.run(call()) < BLOCKED_SECONDS
    assert vtrr.get_partition("acme").max_backlog == 1


def test_replies_that_are_lost_store_nothing_twice(server, queue, proxy):
    """Every third reply is lost; items that were run meanwhile don't come again."""
    vtrr = open_queue(proxy.url())
    proxy.drop_replies(every=3, commands=("EVAL", "EVALSHA"))

    async def call():
        for at in range(30):
            await vtrr.work.aqueue("acme", [{"id": f"i{at}"}])
            assert [lease.item_id for lease in await asyncio.to_thread(settle, queue)] == [f"i{at}"]

    asyncio.run(call())
    assert proxy.dropped >= 10
    assert ids_of(queue) == []


def settle(vtrr):
    leases = lease_all(vtrr)
    assert all(vtrr.engine.ack(lease.item_id, lease.token).held for lease in leases)
    return leases


def test_many_calls_at_once(server, queue, redis_client):
    """500 of them share a bounded number of connections; each item is there once, in order."""

    async def call():
        async with watched_loop() as kept:
            await asyncio.gather(*(
                queue.work.aqueue(f"p{at % 10}", [{"id": f"{at}-1"}, {"id": f"{at}-2"}])
                for at in range(500)
            ))  # fmt: skip
        return kept[0], len(redis_client.client_list())

    kept, connections = asyncio.run(call())
    assert connections <= MOST_CONNECTIONS + 8
    found = ids_of(queue)
    assert len(found) == len(set(found)) == 1000
    assert all(found.index(f"{at}-1") < found.index(f"{at}-2") for at in range(500))
    assert kept < 5


@pytest.mark.parametrize("fault", ["black hole", "late replies"])
def test_the_loop_is_not_blocked_when_the_server_stalls(server, proxy, fault):
    """The call ends with the error of a blocking one; the loop ran all the time."""
    vtrr = open_queue(proxy.url(), socket_timeout=0.3)

    async def call():
        await vtrr.work.aqueue("acme", [{}])
        if fault == "black hole":
            proxy.black_hole()
        else:
            proxy.stall_replies(1)
        async with watched_loop() as kept:
            with pytest.raises(Unavailable, match="3 attempts"):
                await vtrr.work.aqueue("acme", [{}])
        return kept[0]

    assert asyncio.run(call()) < BLOCKED_SECONDS
    proxy.heal()


def test_a_dead_broker_neither_blocks_the_loop_nor_fails_the_call(server, redis_client, caplog):
    """The items are stored; the call returns within about a second."""
    with Proxy((server.host, server.port)) as broker:
        broker.black_hole()
        app = Celery("dead-broker", broker=broker.url())
        vtrr = VTRRQueue(redis_client, app, name="q")
        task = define(vtrr)
        assert task.celery_task

        async def call():
            async with watched_loop() as kept:
                began = time.monotonic()
                await task.aqueue("acme", [{"id": "i"}])
                return kept[0], time.monotonic() - began

        kept, took = asyncio.run(call())
    assert (kept < BLOCKED_SECONDS, took < 1.5) == (True, True), (kept, took)
    assert "the items are stored" in caplog.text
    assert ids_of(vtrr) == ["i"]


def test_a_cancelled_call_loses_and_doubles_nothing(server, queue, proxy):
    """Cancelled while the reply is on its way: all of it is stored, once, and repeats are known."""
    vtrr = open_queue(proxy.url())
    entries = [{"id": f"i{at}"} for at in range(900)]

    async def call():
        await vtrr.work.aqueue("acme", [{"id": "w"}])
        proxy.stall_replies(0.2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(vtrr.work.aqueue("acme", entries), 0.15)
        proxy.heal()
        assert await vtrr.work.aqueue("acme", entries) == [entry["id"] for entry in entries]
        await vtrr.aclose()

    asyncio.run(call())
    assert ids_of(queue) == ["w", *(entry["id"] for entry in entries)]


@pytest.mark.parametrize("moment", range(8))
def test_a_call_cancelled_at_any_moment_is_whole_or_not_begun(server, queue, moment):
    """The loop takes so many turns before the cancellation; triggers are sent as well."""
    with queue.app.connection_for_read() as broker:  # the memory broker outlives other tests
        broker.default_channel.queue_declare("vtrr_queue", passive=False)
        broker.default_channel.queue_purge("vtrr_queue")

    async def call():
        task = asyncio.create_task(queue.work.aqueue("acme", [{"id": "a"}, {"id": "b"}]))
        for _ in range(moment):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await queue.aclose()

    asyncio.run(call())
    assert ids_of(queue) in ([], ["a", "b"])
    with queue.app.connection_for_read() as broker:
        sent = broker.default_channel.queue_declare("vtrr_queue", passive=False).message_count
    assert sent == queue.inspector.depth().triggers


def test_a_loop_that_ends_in_the_middle_leaves_whole_chunks(server, queue, proxy):
    """`asyncio.run` cancels what is under way; the next loop repeats it with the same ids."""
    vtrr = open_queue(proxy.url())
    entries = [{"id": f"i{at}"} for at in range(700)]

    async def begin():
        proxy.stall_replies(5)
        before = proxy.seen["EVALSHA"]
        asyncio.create_task(vtrr.work.aqueue("acme", entries))  # noqa: RUF006 - it is left behind
        await asyncio.to_thread(eventually, lambda: proxy.seen["EVALSHA"] > before, 10, "a chunk")

    asyncio.run(begin())
    proxy.heal()
    assert queue.inspector.depth().waiting in {0, 500, 700}
    asyncio.run(vtrr.work.aqueue("acme", entries))
    assert ids_of(queue) == [entry["id"] for entry in entries]


def test_an_interrupted_bulk_call_names_what_is_stored(server, proxy):
    """As the blocking call does."""
    vtrr = open_queue(proxy.url(), socket_timeout=0.2)

    async def call():
        await vtrr.work.aqueue("warm", [{"id": "w"}])
        proxy.stall_replies(1, every=2)  # each second chunk, and each repetition of it
        proxy.stall_replies(1, every=3)
        proxy.stall_replies(1, every=5)
        with pytest.raises(EnqueueInterrupted, match="500 items are stored, 200"):
            await vtrr.work.aqueue("acme", [{"id": f"i{at}"} for at in range(700)])

    proxy_seen = proxy.seen
    asyncio.run(call())
    assert proxy_seen["EVALSHA"] + proxy_seen["EVAL"] >= 5


def test_each_loop_has_its_connections_and_closes_them(server, queue, redis_client):
    """Loops after each other and in threads; none of them leaves a connection or a warning."""
    before = {each["id"] for each in redis_client.client_list()}
    for at in range(3):
        asyncio.run(queue.work.aqueue("acme", [{"id": f"i{at}"}]))
        gc.collect()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(queue.work.aqueue("acme", [{"id": "i3"}]))
    loop.run_until_complete(queue.aclose())
    loop.run_until_complete(queue.work.aqueue("acme", [{"id": "i4"}]))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    gc.collect()
    broker = {each["id"] for each in redis_client.client_list() if each["db"] != "0"}
    eventually(
        lambda: len({each["id"] for each in redis_client.client_list()} - before - broker) <= 1,
        what="connections of ended loops are closed",
    )
    assert ids_of(queue) == [f"i{at}" for at in range(5)]


def test_outside_of_a_loop_there_is_a_clear_error(queue):
    coroutine = queue.work.aqueue("acme", [{}])
    with pytest.raises(RuntimeError, match="no running event loop"):
        coroutine.send(None)


def test_eager_calls_run_here(server, queue):
    """`task_always_eager` runs the function, without Redis."""
    queue.app.conf.task_always_eager = True
    server.stop()
    try:
        assert len(asyncio.run(queue.work.aqueue("acme", [{}, {}]))) == 2
        eager = asyncio.run(queue.work.aapply_async(partition_key="acme"))
        assert eager.state == "SUCCESS"
    finally:
        server.start()


def test_settings_of_the_blocking_client_are_carried_over(tmp_path):
    """User, password, database, TLS and socket settings; what asyncio lacks is named."""
    client = redis.Redis(
        host="h", port=7, db=3, username="u", password="p", ssl=True, ssl_cert_reqs="required",
        ssl_ca_certs=str(tmp_path), client_name="me", health_check_interval=5,
    )  # fmt: skip
    (pool,) = async_pools(private_pool(client, 1.5), 1.5)
    connection = pool.make_connection()
    got = (connection.host, connection.port, connection.db, connection.username,
           connection.password, connection.client_name, connection.socket_timeout)  # fmt: skip
    assert got == ("h", 7, 3, "u", "p", "me", 1.5)
    assert connection.ssl_context.cert_reqs == ssl.CERT_REQUIRED
    assert connection.ssl_context.ca_certs == str(tmp_path)
    odd = redis.Redis(ssl=True, ssl_validate_ocsp=True)
    with pytest.raises(ArgumentError, match="ssl_validate_ocsp"):
        async_pools(private_pool(odd, 1.5), 1.5)


def test_a_unix_socket_and_an_acl_user(tmp_path):
    """Both are used as the blocking client would."""
    path = tmp_path / "s"
    with Server("valkey", "--unixsocket", str(path)) as server, server.client() as admin:
        admin.acl_setuser("u", enabled=True, passwords=["+p"], keys=["*"], channels=["*"],
                          categories=["+@all"])  # fmt: skip
        client = redis.Redis(unix_socket_path=str(path), username="u", password="p")
        vtrr = make_queue(client)
        asyncio.run(define(vtrr).aqueue("acme", [{"id": "i"}]))
        assert ids_of(vtrr) == ["i"]
        wrong = redis.Redis(unix_socket_path=str(path), username="u", password="no")
        # Before redis-py 8.2 an asynchronous one calls it a lost connection.
        is_named = tuple(map(int, redis.__version__.split(".")[:2])) >= (8, 2)
        expected = Refused if is_named else Unavailable
        with pytest.raises(expected, match=r"Authentication|invalid username"):
            asyncio.run(define(make_queue(wrong)).aqueue("acme", [{}]))


@pytest.mark.slow
def test_sentinel_names_the_primary():
    """The pool asks the Sentinels, and follows a failover."""
    with Watched() as watched:
        sentinel = Sentinel(watched.addresses, socket_timeout=1)
        vtrr = make_queue(sentinel.master_for(MASTER))
        work = define(vtrr)

        async def call():
            await work.aqueue("acme", [{"id": "i1"}], durability="replicated")
            watched.primary.kill()
            deadline = time.monotonic() + timedelta(seconds=20).total_seconds()
            while time.monotonic() < deadline:
                with contextlib.suppress(Unavailable):
                    return await work.aqueue("acme", [{"id": "i2"}])
            return []

        assert asyncio.run(call()) == ["i2"]
        assert ids_of(vtrr) == ["i1", "i2"]


def test_clients_are_made_once_a_loop(redis_client):
    async def both():
        return clients.here(), clients.here()

    keys = QueueKeys("q")
    client = ScriptClient(redis_client, keys, 1.0)
    clients = AsyncClients(client, client.place)
    first, second = asyncio.run(both())
    assert first is second
    assert asyncio.run(both())[0] is not first
    assert len(clients._of) <= 1  # those of loops that are closed went
