"""Calls that do not say whose turn they use: the task's own rule does."""

import asyncio

import pytest
from celery import chain

from tests.callers import lease_all, make_app, make_queue
from vtrr_queue import ArgumentError, ArgumentTypeError


@pytest.fixture
def vtrr(redis_client):
    """A queue without its task."""
    return make_queue(redis_client)


def define(vtrr, **options):
    """Make a task of an order and the user who made it."""

    @vtrr.task(**options)
    def work(self, order, user=None):
        return order

    return work


def by_user(order, user=None):
    """The partition of an order."""
    return user


def partitions(vtrr):
    """Mapping item id -> partition of everything that waits."""
    return {lease.item_id: lease.partition for lease in lease_all(vtrr)}


def test_delay_asks_the_function(vtrr):
    """With the arguments of the call, positional or by name."""
    work = define(vtrr, partition_by=by_user)
    one, two = work.delay(1, "ann").id, work.celery_task.delay(2, user="bob").id
    assert partitions(vtrr) == {one: "ann", two: "bob"}


def test_a_coroutine_asks_it_too(vtrr):
    """`aapply_async` follows the rules of `apply_async`."""
    work = define(vtrr, partition_by=by_user, default_partition="guests")

    async def call():
        return [(await work.aapply_async(args)).id for args in ((1, "ann"), (2,))]

    one, two = asyncio.run(call())
    assert partitions(vtrr) == {one: "ann", two: "guests"}


def test_delay_takes_the_default(vtrr):
    work = define(vtrr, default_partition="all")
    item = work.delay(1).id
    assert partitions(vtrr) == {item: "all"}


def test_the_default_stands_in_for_none(vtrr):
    """The function may leave a call to it."""
    work = define(vtrr, partition_by=by_user, default_partition="guests")
    one, two = work.delay(1).id, work.delay(1, user="ann").id
    assert partitions(vtrr) == {one: "guests", two: "ann"}


def test_a_given_partition_wins(vtrr):
    """Over both, in a call and in a signature; the function isn't asked."""
    work = define(vtrr, partition_by=lambda *_: pytest.fail("asked"), default_partition="all")
    work.apply_async((1,), partition_key="ann", task_id="call")
    work.s(1).set(partition_key="bob", task_id="signature").apply_async()
    assert partitions(vtrr) == {"call": "ann", "signature": "bob"}


def test_queue_says_it_itself(vtrr):
    """`queue()` is of one partition, whatever its entries are."""
    work = define(vtrr, partition_by=lambda *_: pytest.fail("asked"))
    (item,) = work.queue("ann", [{"args": [1]}])
    assert partitions(vtrr) == {item: "ann"}


def test_a_signature_needs_no_partition_then(vtrr):
    """Alone, partial, immutable, or as the first of a chain."""
    work = define(vtrr, partition_by=by_user)
    ids = {
        work.s(1, "ann").delay().id: "ann",
        work.s(user="bob").apply_async((1,)).id: "bob",
        work.si(1, "cid").delay().id: "cid",
        chain(work.s(1, "dot"), work.s("eve"))().parent.id: "dot",
    }
    assert partitions(vtrr) == ids


@pytest.mark.parametrize("call", ["delay", "apply_async", "signature", "eager"])
def test_a_call_of_no_partition_is_refused(redis_client, call):
    """With what to do about it; eagerly too, so that a test of the caller finds it."""
    work = define(make_queue(redis_client, app=make_app(task_always_eager=call == "eager")))
    calls = {
        "delay": lambda: work.delay(1),
        "apply_async": lambda: work.apply_async((1,)),
        "signature": lambda: work.s(1).delay(),
        "eager": lambda: work.delay(1),
    }
    with pytest.raises(ArgumentTypeError, match=r"partition_key must be .* default_partition"):
        calls[call]()
    assert redis_client.dbsize() == 0


@pytest.mark.parametrize(
    ("result", "error"),
    [("", ArgumentError), (7, ArgumentTypeError), (b"ann", ArgumentTypeError),
     ("\ud800", ArgumentError), ("x" * 70_000, ArgumentError)],
    ids=["empty", "number", "bytes", "surrogate", "long"],
)  # fmt: skip
def test_what_the_function_returns_is_checked(vtrr, redis_client, result, error):
    """As a partition that was passed; the error says where it came from."""
    work = define(vtrr, partition_by=lambda *_: result, default_partition="all")
    with pytest.raises(error, match=r"^the result of partition_by must be"):
        work.delay(1)
    assert redis_client.dbsize() == 0


def test_none_without_a_default_is_said_to_be_the_function_s(vtrr, redis_client):
    """The error names what is left to do: the task has a `partition_by`."""
    work = define(vtrr, partition_by=lambda *_: None)
    message = "the result of partition_by must be a string, unless the task has default_partition"
    with pytest.raises(ArgumentTypeError, match=f"^{message}, not None"):
        work.delay(1)
    assert redis_client.dbsize() == 0


def test_an_error_of_the_function_is_one_of_the_call(vtrr, redis_client):
    work = define(vtrr, partition_by=lambda _, user: {}[user])
    with pytest.raises(KeyError, match="ann"):
        work.delay(1, "ann")
    assert redis_client.dbsize() == 0
