"""A connection on which anything went wrong is never used again."""

import signal
import threading

import pytest
import redis

from tests.queues import audited_engine, drain, items
from tests.waiting import eventually
from vtrr_queue.errors import ReplyMismatch, Unavailable


class Interrupted(Exception):
    """What a soft time limit raises wherever the code happens to be."""


@pytest.fixture
def interrupt(proxy):
    """Let SIGUSR1 raise in the main thread while the proxy holds the next reply back."""

    def handler(*_):
        raise Interrupted

    def kill():
        eventually(lambda: proxy.stalled, what="a stalled reply")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=kill)

    def interrupt():
        proxy.stall_replies(0.3)
        thread.start()

    yield interrupt
    thread.join()
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def proxied(proxy):
    """An engine behind the proxy."""
    with redis.Redis.from_url(proxy.url()) as client, audited_engine(client) as engine:
        yield engine


def test_an_interrupted_read_leaves_no_reply_to_the_next_call(proxied, proxy, interrupt):
    """The exception gets through, and the next call reads its own reply on a new connection."""
    assert proxied.lease().items == ()
    proxied.enqueue("A", items("a1", "a2"))
    interrupt()
    with pytest.raises(Interrupted):
        proxied.lease()
    proxy.heal()
    (lease,) = proxied.lease().items
    assert lease.item_id == "a2"
    assert proxied.ack(lease.item_id, lease.token).held
    assert proxied.lease().items == ()


def test_a_signal_waits_for_the_reply_when_masked(proxied, proxy, interrupt):
    """In a pool child a soft time limit does not break a call in the middle."""
    proxied.client.mask_signals = True
    proxied.enqueue("A", items("a1"))
    ((_, link, _),) = proxied.client._kept
    interrupt()
    with pytest.raises(Interrupted):
        proxied.enqueue("A", items("a2"))
    proxy.heal()
    assert [kept[1] for kept in proxied.client._kept] == [link]
    assert link._sock is not None
    assert [lease.item_id for lease in drain(proxied)] == ["a1", "a2"]


def test_a_reply_to_another_call_is_not_believed(engine, monkeypatch):
    """The call is repeated on a new connection and leases nothing twice."""
    engine.enqueue("A", items("a1", "a2"))
    (first,) = engine.lease().items
    stale = [b"leased", first.token.encode(), 1, 0, 0, b"", b"a1", first.token.encode(), b"1", b""]
    real, replies = engine.client._reply, [stale]
    monkeypatch.setattr(engine.client, "_reply", lambda c: replies.pop() if replies else real(c))
    (second,) = engine.lease().items
    assert (second.item_id, replies) == ("a2", [])
    assert drain(engine) == []


@pytest.mark.parametrize("reply", [None, b"OK", 7, [], [b"acked"], [b"acked", b"x", 1]])
def test_replies_that_answer_nothing_end_in_an_error(engine, monkeypatch, reply):
    """After the last attempt the caller hears what came instead."""
    monkeypatch.setattr("vtrr_queue.talk.BACKOFF_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(engine.client, "_reply", lambda _: reply)
    with pytest.raises(Unavailable) as caught:
        engine.ack("a1", "t1")
    assert isinstance(caught.value.cause, ReplyMismatch)


def test_connections_are_closed_after_a_mismatch(engine, monkeypatch, redis_client):
    """A half-read connection goes away with what is left on it."""
    engine.enqueue("A", items("a1"))
    addresses = {x["addr"] for x in redis_client.client_list()}
    monkeypatch.setattr("vtrr_queue.talk.BACKOFF_SECONDS", (0.0, 0.0))
    with monkeypatch.context() as patch:
        patch.setattr(engine.client, "_reply", lambda _: b"no")
        with pytest.raises(Unavailable):
            engine.lease()
    assert engine.ack("a1", "t1").held is False
    now = {x["addr"] for x in redis_client.client_list()}
    eventually(lambda: len(now - addresses) == 1 and len(addresses - now) == 1)


def test_a_server_that_does_not_answer_is_given_up(proxied, proxy, monkeypatch):
    """After three attempts, each within the timeout."""
    monkeypatch.setattr("vtrr_queue.talk.BACKOFF_SECONDS", (0.0, 0.0))
    proxied.enqueue("A", items("a1"))
    proxy.refuse()
    with pytest.raises(Unavailable, match="lease: Redis did not answer in 3 attempts"):
        proxied.lease()
    with pytest.raises(Unavailable, match="HEXISTS: Redis did not answer"):
        proxied.known(["a1"])
    proxy.heal()
    assert proxied.known(["a2", "a1"]) == ["a1"]


def test_scripts_are_sent_again_after_the_server_forgot_them(engine, redis_client):
    """SCRIPT FLUSH or a restart costs one more round trip, also within a batch."""
    engine.enqueue("A", items("a1", "a2", "a3"))
    leases = engine.lease(count=3).items
    redis_client.script_flush()
    calls = [engine.ack_call(lease.item_id, lease.token) for lease in leases]
    replies = engine.client.call_many([call for call, _ in calls])
    assert [reply[0] for reply in replies] == ["acked"] * 3
