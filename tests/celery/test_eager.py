"""With `task_always_eager` a call is checked as an enqueue is, and runs with an item's fields."""

import asyncio
from datetime import date
from functools import partial

import pytest
from celery import chain

from tests.callers import make_app, make_queue
from vtrr_queue import ArgumentError, ArgumentTypeError, PayloadError

BAD = [
    ({"weight": "x"}, ArgumentTypeError, "weight"),
    ({"weight": 0}, ArgumentError, "weight"),
    ({"priority": 10}, ArgumentError, "priority"),
    ({"countdown": "soon"}, ArgumentTypeError, "countdown"),
    ({"eta": date(2030, 1, 1)}, ArgumentTypeError, "eta"),
    ({"expires": []}, ArgumentTypeError, "expires"),
    ({"headers": 5}, ArgumentTypeError, "headers"),
    ({"time_limit": 1e6}, ArgumentError, "time_limit"),
    ({"durability": "solid"}, ArgumentError, "durability"),
    ({"compression": "bogus"}, ArgumentError, "compression"),
    ({"partition_key": ""}, ArgumentError, "partition_key"),
    ({"args": [object()]}, PayloadError, "args"),
]


@pytest.fixture
def make(redis_client):
    """Make a task that runs eagerly and notes its request."""

    def make(body=None, **options):
        vtrr = make_queue(redis_client, app=make_app(task_always_eager=True))

        def note(self, *args):
            request = self.request
            seen.append((request.vtrr_partition, request.vtrr_item_id == request.id,
                         request.vtrr_timeouts, request.vtrr_token, request.vtrr_cancelled(),
                         request.vtrr_lease_held()))  # fmt: skip
            return body(self, *args) if body else sum(args)

        seen = []
        work = vtrr.task(**options)(note)
        work.seen = seen
        return work

    yield make
    assert redis_client.dbsize() == 0


def _run(make_coroutine, **options):
    return asyncio.run(make_coroutine(**options))


def fields(partition):
    return (partition, True, 0, None, False, True)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("options", "error", "match"), BAD)
def test_what_an_enqueue_refuses_is_refused(make, options, error, match, is_async):
    """By the same error, and the function does not run."""
    work = make()
    options = {"partition_key": "acme"} | options
    call = partial(_run, work.aapply_async) if is_async else work.apply_async
    with pytest.raises(error, match=match):
        call(**options)
    assert work.seen == []


def test_a_call_that_could_be_enqueued_runs(make):
    """Options of an enqueue don't hinder it."""
    work = make()
    options = {"weight": 2, "priority": 1, "countdown": 60, "expires": 100, "durability": "fsync"}
    result = work.apply_async(
        (1, 2), partition_key="acme", task_id="i", headers={"x": 1}, **options
    )
    assert (result.get(), result.id) == (3, "i")
    assert work.seen == [fields("acme")]


@pytest.mark.parametrize(("call", "options", "partition"), [
    (lambda work: work.delay(1), {"default_partition": "all"}, "all"),
    (lambda work: work.delay(1), {"partition_by": lambda number: f"u{number}"}, "u1"),
    (lambda work: work.queue("acme", [{"args": [1]}]), {}, "acme"),
    (lambda work: work.apply((1,), partition_key="acme"), {}, "acme"),
    (lambda work: work.apply((1,)), {"default_partition": "all"}, "all"),
    (lambda work: work.apply((1,)), {}, None),
    (lambda work: asyncio.run(work.aqueue("acme", [{"args": [1]}])), {}, "acme"),
])  # fmt: skip
def test_the_function_finds_the_fields_of_a_worker_run(make, call, options, partition):
    """Its partition and id, no timeouts, no token; questions about its lease ask nobody."""
    work = make(**options)
    call(work)
    assert work.seen == [fields(partition)]


def test_a_chain_and_a_retry_keep_them(make):
    """Each step has its own."""

    def body(self, number):
        if self.request.retries == 0:
            raise self.retry(countdown=0)
        return number + 1

    work = make(body, max_retries=1)
    steps = chain(work.s(1).set(partition_key="acme"), work.s().set(partition_key="bolt"))
    assert steps.apply_async().get() == 3
    assert work.seen == [fields("acme")] * 2 + [fields("bolt")] * 2
