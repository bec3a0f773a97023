"""How many plain Celery tasks a worker runs is known at any moment."""

import sys
import threading

import pytest
from celery.worker import state

from vtrr_queue.celery.worker import plain_tasks

READS = 500


class Run:
    """Stands in Celery's set of active requests, as a request does."""


@pytest.fixture
def busy_threads():
    """Three threads that begin and end runs all the time, and fast switches between threads."""
    over = threading.Event()

    def begin_and_end():
        held = []
        while not over.is_set():
            held.append(Run())
            state.active_requests.add(held[-1])
            if len(held) > 50:
                state.active_requests.discard(held.pop(0))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=begin_and_end) for _ in range(3)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)
    state.active_requests.clear()


@pytest.mark.usefixtures("busy_threads")
def test_they_are_counted_while_threads_begin_and_end_some():
    """Celery's weak set raises when it changes under a reader, which ended the worker."""
    counts = {plain_tasks() for _ in range(READS)}
    assert counts
    assert max(counts) <= 3 * 51
