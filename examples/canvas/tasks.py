"""A book is made of pages: pages take turns between tenants, the rest are plain Celery tasks."""

import os

import redis
from celery import Celery

from vtrr_queue import VTRRQueue

REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379")

app = Celery("tasks", broker=f"{REDIS_URL}/0", backend=f"{REDIS_URL}/2")
app.conf.worker_prefetch_multiplier = 1

vtrr = VTRRQueue(
    redis.Redis.from_url(f"{REDIS_URL}/1"), app, name="pages", celery_queue="vtrr_pages"
)


@vtrr.task
def page(self, title, number):
    """Set a page: the expensive step, which is to be shared fairly."""
    return f"{title} {number}"


@app.task
def fetch(title):
    """Fetch the manuscript."""
    return title.upper()


@app.task
def bind(pages, tenant):
    """Put the pages together."""
    return f"{tenant}: {', '.join(pages)}"
