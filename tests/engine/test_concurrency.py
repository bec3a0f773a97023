"""One engine serves many threads and survives a fork."""

import threading
from collections import Counter
from multiprocessing import get_context

import pytest

from tests.queues import drain, finish, items

PRODUCERS, CALLS, CALL_SIZE = 4, 50, 20
TOTAL = PRODUCERS * CALLS * CALL_SIZE


class Crowd:
    """Threads that use one engine until everything is served or one of them fails.

    Args:
        engine: The engine.
    """

    def __init__(self, engine):
        self.engine = engine
        self.leased, self.errors = [], []
        self.done = threading.Event()

    def produce(self, letter):
        for call in range(CALLS):
            names = [f"{letter}{call * CALL_SIZE + n}" for n in range(CALL_SIZE)]
            self.engine.enqueue(f"tenant-{call % 7}", items(*names))

    def consume(self, count):
        while not self.done.is_set():
            leases = self.engine.lease(count=count).items
            self.leased += [lease.item_id for lease in leases]
            assert not leases or finish(self.engine, leases) == [True] * len(leases)
            if len(self.leased) >= TOTAL:
                self.done.set()

    def guard(self, work, argument):
        try:
            work(argument)
        except BaseException as error:
            self.errors.append(error)
            self.done.set()
            raise


def test_threads_lease_each_item_once(engine):
    """Four produce and four consume at once; nothing is lost, nothing comes twice."""
    crowd = Crowd(engine)
    work = [(crowd.produce, letter) for letter in "abcd"]
    work += [(crowd.consume, count) for count in (1, 2, 5, 9)]
    threads = [threading.Thread(target=crowd.guard, args=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert crowd.errors == []
    assert Counter(crowd.leased) == Counter(
        f"{letter}{n}" for letter in "abcd" for n in range(CALLS * CALL_SIZE)
    )


# Python 3.12 warns of any fork beside threads; the children touch only the engine.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_children_share_nothing_but_the_queue(engine):
    """The parent's connections and call numbers are not used again: 4 children, 500 calls each."""
    engine.enqueue("parent", items("parent"))
    context = get_context("fork")
    results = context.SimpleQueue()

    def work(child):
        served = []
        for n in range(250):
            engine.enqueue(f"tenant-{child}", items(f"{child}-{n}"))
        for _ in range(125):
            (lease,) = engine.lease().items
            assert engine.ack(lease.item_id, lease.token).held
            served.append(lease.item_id)
        results.put(served)

    children = [context.Process(target=work, args=(n,)) for n in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    served = [item_id for _ in children for item_id in results.get()]
    served += [lease.item_id for lease in drain(engine)]
    assert Counter(served) == Counter(
        ["parent", *(f"{c}-{n}" for c in range(4) for n in range(250))]
    )
