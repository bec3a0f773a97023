"""Queues without workers, as a caller makes them, and pictures of a database."""

import asyncio
import weakref

import redis
from celery import Celery

from vtrr_queue import VTRRQueue


def make_app(name="tests", **conf):
    """Return an app of its own that publishes into this process's memory."""
    app = Celery(name, broker="memory://", set_as_current=False)
    app.conf.update(conf)
    return app


def make_queue(client, **options):
    """Return a queue that publishes nothing, unless the options say otherwise."""
    settings = {"name": "files", "dispatch": "direct"} | options
    app = settings.pop("app", None) or make_app()
    vtrr = VTRRQueue(client, app, **settings)
    weakref.finalize(vtrr, vtrr.engine.client.close)
    return vtrr


def define(vtrr, **options):
    """Give a queue its task."""

    @vtrr.task(**options)
    def work(self, *args, **kwargs):
        """Do the work."""
        return args, kwargs

    return work


def snapshot(client: redis.Redis):
    """Return a mapping key -> serialised value of the whole database."""
    return {key: client.dump(key) for key in client.scan_iter(count=1000)}


def lease_all(vtrr, count=1000):
    """Lease what is servable."""
    return vtrr.engine.lease(count=count, holder="test").items


def fair(task, *args, user="u", **kwargs):
    """A signature of a fair task."""
    return task.s(*args, **kwargs).set(partition_key=user)


def enqueue_both_ways(client):
    """Enqueue one item by a blocking call and one from a coroutine, and lease them."""
    vtrr = make_queue(client)
    work = define(vtrr)

    async def call():
        await work.aqueue("A", [{"id": "a2"}])
        await vtrr.aclose()

    work.queue("A", [{"id": "a1"}])
    asyncio.run(call())
    return [lease.item_id for lease in lease_all(vtrr)]
