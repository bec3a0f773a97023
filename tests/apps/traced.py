"""A fair task under a tracing library: `TRACER` is "otel" or "sentry".

As a script it is a producer: it enqueues in every way inside of a span of its own, and prints the
span, and the ids of the items by the way they were made.
"""

import asyncio
import json
import os
import sys

import redis
from celery import Celery, signals
from traces import Traces

from vtrr_queue import VTRRQueue

STATE = os.environ["STATE_URL"]
OTEL = os.environ["TRACER"] == "otel"

app = Celery("traced", broker=os.environ["BROKER_URL"], backend=f"{STATE}/1")
app.conf.broker_connection_retry_on_startup = True
app.conf.result_expires = None
state = redis.Redis.from_url(f"{STATE}/0")
traces = Traces(f"{STATE}/2")
vtrr = VTRRQueue(state, app, name="traced", celery_queue="traced", dispatch=os.environ["DISPATCH"])

spans = {}
"""Ended spans of this process: id -> id of the parent."""


class Outer(app.Task):
    """A base with an `apply_async` of its own, as many apps have."""

    abstract = True

    def apply_async(self, args=None, kwargs=None, **options):
        """Add a header to every call."""
        headers = {**(options.pop("headers", None) or {}), "tenant": "base"}
        return super().apply_async(args, kwargs, headers=headers, **options)


@vtrr.task(base=Outer, max_retries=1, default_retry_delay=0.1)
def work(self, gate=None, *, retry=False):
    """Note the span that is current at the start, and again behind the gate."""
    traces.note(self)
    before = current()
    if gate:
        traces.wait_at(gate)
    seen = {
        "item": self.request.id, "before": before, "after": current(),
        "retries": self.request.retries, "tenant": getattr(self.request, "tenant", None),
    }  # fmt: skip
    traces.client.rpush("seen", json.dumps(seen))
    if retry and not self.request.retries:
        raise self.retry()


def start_otel():
    """Instrument Celery, as `opentelemetry-instrument` does."""
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.instrumentation.celery import CeleryInstrumentor  # noqa: PLC0415
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider  # noqa: PLC0415

    class Keep(SpanProcessor):
        """Remembers whose child a span was."""

        def on_end(self, span):
            """Keep it."""
            parent = span.parent and f"{span.parent.span_id:016x}"
            spans[f"{span.context.span_id:016x}"] = parent

    provider = TracerProvider()
    provider.add_span_processor(Keep())
    trace.set_tracer_provider(provider)
    CeleryInstrumentor().instrument()


def start_sentry():
    """Initialise Sentry with its Celery integration; nothing leaves the process."""
    import sentry_sdk  # noqa: PLC0415
    from sentry_sdk.integrations.celery import CeleryIntegration  # noqa: PLC0415

    class Keep(sentry_sdk.transport.Transport):
        """Remembers whose child a span was."""

        def capture_envelope(self, envelope):
            """Keep the spans of a transaction."""
            event = envelope.get_transaction_event()
            for span in (event or {}).get("spans", []):
                spans[span["span_id"]] = span["parent_span_id"]

    sentry_sdk.init(
        dsn="http://key@localhost/1", transport=Keep, traces_sample_rate=1.0,
        default_integrations=False, integrations=[CeleryIntegration()],
    )  # fmt: skip


def current():
    """The span that is current here: its trace, its id, and its parent."""
    if OTEL:
        from opentelemetry import trace  # noqa: PLC0415

        span = trace.get_current_span()
        parent = getattr(span, "parent", None)
        context = span.get_span_context()
        return {"trace": f"{context.trace_id:032x}", "id": f"{context.span_id:016x}",
                "parent": parent and f"{parent.span_id:016x}"}  # fmt: skip
    import sentry_sdk  # noqa: PLC0415

    span = sentry_sdk.get_current_scope().transaction
    return {"trace": span.trace_id, "id": span.span_id, "parent": span.parent_span_id}


def span_of_caller():
    """A span for the producer to work in."""
    if OTEL:
        from opentelemetry import trace  # noqa: PLC0415

        return trace.get_tracer("producer").start_as_current_span("producer")
    import sentry_sdk  # noqa: PLC0415

    return sentry_sdk.start_transaction(name="producer")


async def produce_in_a_loop(made):
    """The ways of coroutines."""
    made["aqueue"] = await work.aqueue("a", [{}, {}])
    made["aapply_async"] = [(await work.aapply_async(partition_key="a")).id]
    await vtrr.aclose()


def produce():
    """Enqueue in every way, a thousand items in one call among them."""
    gate = os.environ.get("GATE") or None
    made = {}
    with span_of_caller():
        here = current()
        made["queue"] = work.queue("q", [{"args": [gate]}] * 4)
        made["apply_async"] = [work.apply_async((gate,), partition_key="p").id]
        made["signature"] = [work.s().set(partition_key="s").apply_async().id]
        made["retry"] = [work.apply_async((), {"retry": True}, partition_key="r").id]
        asyncio.run(produce_in_a_loop(made))
        after = current()
    print(json.dumps({"here": here, "after": after, "made": made, "spans": spans}))


if __name__ == "__main__":
    (start_otel if OTEL else start_sentry)()
    produce()
elif "worker" in sys.argv:  # and not in the test, which imports this as well
    if not OTEL:  # each says itself where it is to be started
        start_sentry()
    elif "prefork" in sys.argv:
        signals.worker_process_init.connect(lambda **_: start_otel(), weak=False)
    else:
        start_otel()
