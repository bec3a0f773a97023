"""Every form in which a Celery task asks to be run again."""

import os
import signal

import celery
import redis
from celery import Celery
from impatience import ImpatientAMQP
from traces import Traces

from vtrr_queue import VTRRQueue

STATE = os.environ["STATE_URL"]

app = Celery("retries", broker=os.environ["BROKER_URL"], backend=f"{STATE}/1", amqp=ImpatientAMQP)
app.conf.broker_connection_retry_on_startup = True
state = redis.Redis.from_url(f"{STATE}/0")
traces = Traces(f"{STATE}/2")

DELAY, LEASE = 0.1, 2.0
_common = {"dispatch": os.environ["DISPATCH"], "celery_queue": "retries"}
retried = VTRRQueue(state, app, name="retried", **_common)
brief = VTRRQueue(state, app, name="brief", lease_seconds=LEASE, **_common)
automatic = VTRRQueue(state, app, name="automatic", **_common)
based = VTRRQueue(state, app, name="based", **_common)


class Upset(Exception):
    """The task's own error."""


def again(self):
    """Retry until the limit."""
    raise self.retry()


def with_countdown(self, seconds):
    """Retry once after a countdown."""
    if not self.request.retries:
        raise self.retry(countdown=seconds)


def with_error(self):
    """Retry until the limit and end with an error of its own."""
    raise self.retry(exc=Upset("gave up"))


def with_payload(self, number, text="none"):
    """Retry once with other arguments."""
    if not self.request.retries:
        raise self.retry(args=["with_payload", number + 1], kwargs={"text": "new"})
    return [number, text]


def without_throwing(self):
    """Ask for a retry and return all the same."""
    if self.request.retries:
        return "second"
    self.retry(throw=False)
    return "first"


def with_limit(self, limit):
    """Retry until a limit given by the call."""
    raise self.retry(max_retries=limit)


def after_gate(self, gate):
    """Wait at a gate, then retry once."""
    if not self.request.retries:
        traces.wait_at(gate)
        raise self.retry(countdown=0)
    return "retried"


def stale(self, gate):
    """The first run outlives its lease and then retries; the second one ends well."""
    if not self.request.vtrr_timeouts:
        traces.wait_at(gate)
        raise self.retry()
    return "second"


def crashing(self):
    """Retry, die in the second run, end in the third."""
    if not self.request.retries:
        raise self.retry()
    if not self.request.vtrr_timeouts:
        os.kill(os.getpid(), signal.SIGKILL)
    return "third"


def retry_another(self):
    """Try to retry the task of another queue."""
    raise brief_work.celery_task.retry()


FORMS = {
    form.__name__: form
    for form in (
        again, with_countdown, with_error, with_payload, without_throwing, with_limit, after_gate,
        stale, crashing, retry_another,
    )
}  # fmt: skip


@retried.task(max_retries=2, default_retry_delay=DELAY)
def work(self, form, *args, **kwargs):
    """Note the run and do what the form says."""
    traces.note(self, form, *args, **kwargs)
    return FORMS[form](self, *args, **kwargs)


@brief.task(default_retry_delay=DELAY)
def brief_work(self, form, *args):
    """The same under a short lease."""
    traces.note(self, form, *args)
    return FORMS[form](self, *args)


@automatic.task(autoretry_for=(Upset,), retry_backoff=1, retry_jitter=False, max_retries=2)
def upset(self, limit=None):
    """Raise what Celery retries by itself, or retry until a limit of its own."""
    traces.note(self)
    if limit is not None:
        raise self.retry(max_retries=limit)
    raise Upset("again")


class CountsRetries(celery.Task):
    """A base whose `retry` does something of its own first."""

    def retry(self, *args, **kwargs):
        """Count, then retry."""
        traces.client.incr("retries asked for")
        kwargs["countdown"] = DELAY
        return super().retry(*args, **kwargs)


@based.task(base=CountsRetries, max_retries=1)
def based_work(self):
    """Retry until the limit."""
    traces.note(self)
    raise self.retry()
