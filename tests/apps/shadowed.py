"""A plain Celery task that is watched: no queue of ours."""

import os
import time

from celery import Celery

from vtrr_queue.celery.shadow import watch

app = Celery("shadowed", broker=os.environ["BROKER_URL"], backend=os.environ["BACKEND_URL"])
app.conf.broker_connection_retry_on_startup = True
app.conf.result_expires = None


def tenant_of(tenant, *_args, **_kwargs):
    """Whose call it is; some are nobody's, and some break it."""
    if tenant == "broken":
        raise KeyError(tenant)
    return None if tenant == "nobody" else tenant


@app.task(bind=True, name="shadowed.work", shared=False, default_retry_delay=0)
def work(self, tenant, seconds=0.0, retries=0):
    """Take some time."""
    time.sleep(seconds)
    if self.request.retries < retries:
        raise self.retry(countdown=0.5)
    return tenant


@app.task(name="shadowed.other", shared=False)
def other(tenant):
    """A task that is not watched."""
    return tenant


recorder = watch(app, os.environ["FOLDER"], {"shadowed.work": tenant_of})
