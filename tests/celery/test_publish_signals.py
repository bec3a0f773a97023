"""Celery's publish signals are sent for items, and what receivers add travels with them."""

import asyncio
from contextvars import ContextVar

import pytest
from celery import Task, signals

from tests.callers import lease_all, make_app, make_queue
from vtrr_queue import PayloadError
from vtrr_queue.celery.announcing import announce
from vtrr_queue.model import NewItem
from vtrr_queue.payload import decode

current = ContextVar("current", default="nobody")


@pytest.fixture
def vtrr(redis_client):
    """A queue whose task takes anything."""
    vtrr = make_queue(redis_client)

    @vtrr.task(default_partition="p")
    def work(self, *args, **kwargs):
        """Do nothing."""

    vtrr.work = work
    return vtrr


@pytest.fixture
def connect():
    """Connect receivers for the time of the test."""
    connected = []

    def connect(signal, receiver):
        signal.connect(receiver, weak=False)
        connected.append((signal, receiver))

    yield connect
    for signal, receiver in connected:
        signal.disconnect(receiver)


def make_each(vtrr):
    """One item in every way; their ids."""
    work = vtrr.work

    async def in_a_loop():
        one = await work.aqueue("p", [{"args": [3], "id": "aqueue"}])
        two = await work.aapply_async((4,), task_id="aapply_async")
        await vtrr.aclose()
        return [*one, two.id]

    ids = work.queue("p", [{"args": [1], "id": "queue"}])
    ids.append(work.apply_async((2,), task_id="apply_async", link=work.s("linked")).id)
    return ids + asyncio.run(in_a_loop())


def test_both_signals_tell_what_celery_tells(vtrr, connect):
    """Sender, headers, body and route, once for each item; the second when it was stored."""
    told = []

    def before(sender, body, headers, **more):
        told.append(("before", sender, headers["id"], body[0], body[2]["callbacks"] is not None))
        assert (more["exchange"], more["routing_key"]) == ("", "vtrr_queue")
        assert more["properties"]["correlation_id"] == headers["id"]
        assert {"root_id", "argsrepr", "timelimit", "retries", "eta"} <= headers.keys()
        assert [queue.name for queue in more["declare"]] == ["vtrr_queue"]
        assert "max_retries" in more["retry_policy"]

    def after(sender, body, headers, **more):
        told.append(("after", sender, headers["id"], vtrr.inspector.depth().waiting))
        assert (more["exchange"], more["routing_key"]) == ("", "vtrr_queue")

    connect(signals.before_task_publish, before)
    connect(signals.after_task_publish, after)
    ids = make_each(vtrr)
    expected = []
    for at, item_id in enumerate(ids, 1):
        linked = item_id == "apply_async"
        expected.append(("before", vtrr.work.name, item_id, [at], linked))
        expected.append(("after", vtrr.work.name, item_id, at))
    assert told == expected


def test_what_receivers_change_is_stored(vtrr, connect):
    """New headers, other values of Celery's own, and arguments; id and task stay the item's."""

    def before(headers, body, **_):
        headers |= {"traceparent": f"00-{headers['id']}", "shadow": "shown", "id": "x", "task": "y"}
        body[0].append("added")

    connect(signals.before_task_publish, before)
    ids = make_each(vtrr)
    leases = {lease.item_id: lease for lease in lease_all(vtrr)}
    assert sorted(leases) == sorted(ids)
    for at, item_id in enumerate(ids, 1):
        payload = decode(leases[item_id].body)
        assert payload.headers == {"traceparent": f"00-{item_id}", "shadow": "shown"}
        assert payload.call() == ([at, "added"], {})
        assert payload.task_name == vtrr.work.name


def test_a_receiver_finds_what_it_left_in_the_context(vtrr, connect):
    """Each item of a call has a context of its own, and the caller's is left alone."""
    found = {}
    connect(signals.before_task_publish, lambda headers, **_: current.set(headers["id"]))
    connect(signals.after_task_publish, lambda headers, **_: found.update({
        headers["id"]: current.get()}))  # fmt: skip
    ids = vtrr.work.queue("p", [{}] * 1200) + make_each(vtrr)
    assert found == {item_id: item_id for item_id in ids}
    assert current.get() == "nobody"


def test_a_countdown_is_told_as_eta(vtrr, connect):
    """In the headers, as Celery does; the item waits by the server's clock."""
    etas = []
    connect(signals.before_task_publish, lambda headers, **_: etas.append(headers["eta"]))
    vtrr.work.apply_async(countdown=60)
    assert etas[0].endswith("+00:00")


def test_the_deprecated_signal_is_sent_too(vtrr, connect):
    """`task_sent`, for those who still listen to it."""
    told = []

    def sent(sender, task_id, task, args, kwargs, **_):
        told.append((task_id, task, args, kwargs))

    connect(signals.task_sent, sent)
    vtrr.work.queue("p", [{"args": [1], "kwargs": {"a": 2}, "id": "i"}])
    assert told == [("i", vtrr.work.name, [1], {"a": 2})]


def test_a_header_that_cannot_travel_is_refused(vtrr, connect, redis_client):
    """Nothing of the call is stored."""
    connect(signals.before_task_publish, lambda headers, **_: headers.update(span=object()))
    with pytest.raises(PayloadError, match="headers"):
        vtrr.work.queue("p", [{}, {}])
    with pytest.raises(PayloadError, match="headers"):
        vtrr.work.delay()
    assert redis_client.keys("vtrr:*:task") == []


def test_a_receiver_that_fails_keeps_nobody_from_enqueuing(vtrr, connect):
    """As in Celery, where its error is logged."""

    def fail(**_):
        raise ValueError("a receiver's own")

    connect(signals.before_task_publish, fail)
    connect(signals.after_task_publish, fail)
    ids = make_each(vtrr)
    assert sorted(lease.item_id for lease in lease_all(vtrr)) == sorted(ids)


def test_nothing_is_done_for_nobody(vtrr):
    """Without receivers, items are not even looked at."""
    items = [NewItem("i", b"no body at all")]
    assert announce(vtrr, items) == (items, ())


def test_arguments_may_be_shown_differently(vtrr):
    """`argsrepr` and `kwargsrepr` hide what logs and events must not show."""
    vtrr.work.apply_async(("secret",), {"key": "secret"}, argsrepr="(…)", kwargsrepr="{…}")
    (lease,) = lease_all(vtrr)
    assert decode(lease.body).headers == {"argsrepr": "(…)", "kwargsrepr": "{…}"}


class Noting(Task):
    """A base whose `apply_async` takes part in every call, and gives it another argument."""

    abstract = True

    def apply_async(self, args=None, kwargs=None, **options):
        """Add to both."""
        options["headers"] = {**(options.get("headers") or {}), "noted": True}
        return super().apply_async([*args, "more"], kwargs, **options)


@pytest.mark.parametrize("eager", [False, True])
def test_an_apply_async_of_the_base_takes_part(redis_client, eager):
    """With every option of the call, in the ways of coroutines and in an eager app as well."""
    vtrr = make_queue(redis_client, app=make_app(task_always_eager=eager))

    @vtrr.task(base=Noting, default_partition="p", max_retries=7, time_limit=60)
    def work(self, *args, **kwargs):
        """Give back what it got."""
        return [*args, kwargs]

    options = {"task_id": "one", "weight": 2, "shadow": "shown"}
    one = work.apply_async((1,), {"key": 2}, link=work.s("linked"), **options)
    if eager:
        assert (one.id, one.get()) == ("one", [1, "more", {"key": 2}])
        return
    two = asyncio.run(in_a_loop(vtrr, work))
    leases = {lease.item_id: lease for lease in lease_all(vtrr)}
    assert leases.keys() == {"one", two}
    first, second = decode(leases["one"].body), decode(leases[two].body)
    assert (first.call(), second.call()) == (([1, "more"], {"key": 2}), ([3, "more"], {}))
    assert first.headers == {"noted": True, "shadow": "shown"}
    assert second.headers == {"noted": True}
    assert leases["one"].weight == 2


async def in_a_loop(vtrr, work):
    """Enqueue one call from a coroutine; its id."""
    result = await work.aapply_async((3,))
    await vtrr.aclose()
    return result.id
