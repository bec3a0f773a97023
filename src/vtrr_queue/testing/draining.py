"""``drain``: run what waits, in fair order, in the calling process."""

from __future__ import annotations

from contextlib import nullcontext

from vtrr_queue.celery.entries import check_integer
from vtrr_queue.celery.inprocess import InProcess, Run
from vtrr_queue.celery.queue import VTRRQueue
from vtrr_queue.errors import ArgumentError, ArgumentTypeError, VTRRError
from vtrr_queue.testing.clock import FakeClock, clock_of

MOST_JUMPS = 1000
"""Most times that ``drain`` moves its clock on without any item becoming servable."""


class NeverEmpty(VTRRError):
    """``drain`` has run as many items as it may and there are more.

    Args:
        runs: The runs so far.
    """

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        super().__init__(f"the queue is not empty after {len(runs)} runs")


def drain(queue: VTRRQueue, *, until_empty: bool = False, most: int = 10_000) -> list[Run]:
    """Run what a queue holds, one item after the other, as a worker with one slot does.

    Leases, retries, results, signals and dead letters are the real ones; time limits are not
    enforced. The queue may get items meanwhile, from the functions too.

    Args:
        queue: The queue; no other worker should work on it.
        until_empty: Go on with what waits for its time (a countdown, a retry, a rate, the end of
            a lease): the queue's clock is moved on as far as it takes, at no cost. If it has no
            :class:`FakeClock`, it has one until the call returns.
        most: Most runs.

    Returns:
        The runs, in the order in which they took place.

    Raises:
        ArgumentTypeError: It is no queue.
        ArgumentError: It has no task yet, or ``most`` is out of range.
        NeverEmpty: There is more than ``most`` runs could do.
        BaseException: A function ended with what is no ``Exception``; its item is back.
    """
    if not isinstance(queue, VTRRQueue):
        raise ArgumentTypeError("queue", queue, "a VTRRQueue")
    if queue.task_name is None:
        raise ArgumentError("queue", queue.name, "a queue with a task: decorate one first")
    check_integer("most", most, 1, 10_000_000)
    with clock_of(queue) if until_empty else nullcontext() as clock:
        return _drain(queue, clock, most)


def _drain(queue: VTRRQueue, clock: FakeClock | None, most: int) -> list[Run]:
    worker, runs, jumps = InProcess(queue), list[Run](), 0
    queue.reclaim()
    while True:
        if len(runs) >= most and _holds_more(queue):
            raise NeverEmpty(runs)
        run = worker.run_next()
        if run is not None:
            runs.append(run)
            jumps = 0
        elif clock is None or not _jump(clock, worker):
            return runs
        else:
            queue.reclaim()
            jumps += 1
            if jumps > MOST_JUMPS:
                raise NeverEmpty(runs)


def _jump(clock: FakeClock, worker: InProcess) -> bool:
    """Move the clock to when something may become servable; False when nothing will."""
    due = worker.wake.next_wake_ms if worker.wake else None
    if due is None:
        return False
    clock.advance(max(1, due - clock.now_ms) / 1000)
    return True


def _holds_more(queue: VTRRQueue) -> bool:
    depth = queue.inspector.depth()
    return depth.waiting + depth.delayed + depth.running > 0
