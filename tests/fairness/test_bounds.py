"""The bounds of the design hold for the rule, whatever arrives and whoever is served when.

Weights are sums of powers of two, so that the arithmetic is exact and no bound needs a margin.
"""

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtrr_queue.model import PRIORITY_DEFAULT
from vtrr_queue.reference import ReferenceScheduler

weights = st.sampled_from([0.25, 0.5, 1.0, 1.0, 2.0, 3.0, 16.0])
partitions = st.sampled_from("abcd")
SERVE, FINISH = "serve", "finish"
events = st.lists(
    st.one_of(
        st.tuples(partitions, st.lists(weights, min_size=1, max_size=6)),
        st.just(SERVE),
        st.just(SERVE),
        st.just(FINISH),
    ),
    min_size=10,
    max_size=80,
)
many = settings(max_examples=300)


class History:
    """A scheduler to which things happen, and what was served so far."""

    def __init__(self):
        self.queue = ReferenceScheduler()
        self.ids = (f"i{n}" for n in itertools.count())
        self.served = []
        self.unfinished = []
        self.heaviest = Counter()
        self.lightest = {}

    def enqueue(self, partition, *item_weights):
        ids = []
        for weight in item_weights:
            ids.append(next(self.ids))
            self.queue.enqueue(partition, ids[-1], weight=weight, now_ms=0)
            self.heaviest[partition] = max(self.heaviest[partition], weight)
            self.lightest[partition] = min(self.lightest.get(partition, weight), weight)
        return ids

    def serve(self):
        leases = self.queue.lease(now_ms=0)
        self.served += leases
        self.unfinished += leases
        return leases[0] if leases else None

    def finish(self):
        if self.unfinished:
            lease = self.unfinished.pop(0)
            self.queue.ack(lease.item_id, lease.token, now_ms=0)

    def happen(self, event):
        """Let one thing happen; the lease it led to."""
        if event == SERVE:
            return self.serve()
        if event == FINISH:
            return self.finish()
        return self.enqueue(event[0], *event[1]) and None


def after(past):
    history = History()
    for event in past:
        history.happen(event)
    return history


@many
@given(events)
def test_the_clock_and_the_tags_stay_close(past):
    """I1, I2, I10: the clock never decreases, tags are at most one charge ahead of it."""
    history = History()
    for event in past:
        queue = history.queue
        clock, queued = queue.current_virtual_time, set(queue.queue.scores)
        history.happen(event)
        if not queue.task:
            assert (queue.current_virtual_time, len(queue.partition_virtual_time)) == (0, 0)
            continue
        assert queue.current_virtual_time >= clock
        for partition, tag in queue.queue.scores.items():
            assert tag <= queue.current_virtual_time + history.heaviest[partition]
            assert tag >= queue.current_virtual_time
            assert partition in queued or tag >= clock
        for partition, tag in queue.partition_virtual_time.scores.items():
            assert partition not in queue.queue
            assert tag > queue.current_virtual_time


@many
@given(events)
def test_two_busy_partitions_get_the_same(past):
    """I3: over any time in which both are servable, their charges differ by one item of each."""
    history = History()
    least, most, difference = {}, {}, Counter()
    for event in past:
        before = set(history.queue.queue.scores)
        lease = history.happen(event)
        for pair in itertools.combinations("abcd", 2):
            if not before.issuperset(pair):
                least.pop(pair, None)
                continue
            if pair not in least:
                least[pair] = most[pair] = difference[pair] = 0
            if lease and lease.partition in pair:
                difference[pair] += lease.weight * (1 if lease.partition == pair[0] else -1)
            least[pair] = min(least[pair], difference[pair])
            most[pair] = max(most[pair], difference[pair])
            bound = history.heaviest[pair[0]] + history.heaviest[pair[1]]
            assert most[pair] - least[pair] <= bound


@many
@given(events, st.lists(st.sampled_from("abcd"), max_size=30))
def test_a_newcomer_waits_for_one_serve_of_each_partition_at_the_clock(past, arrivals):
    """I5: and those who have something already may enqueue more as they like."""
    history = after(past)
    clock = history.queue.current_virtual_time
    tags = dict(history.queue.queue.scores)
    (newcomer,) = history.enqueue("z", 1.0)
    waited = []
    arriving = iter(arrivals)
    while (lease := history.serve()).item_id != newcomer:
        waited.append(lease.partition)
        arrival = next(arriving, None)
        if arrival in tags:
            history.enqueue(arrival, 1.0)
    assert max(Counter(waited).values(), default=0) <= 1
    assert all(tags[partition] == clock for partition in waited)


@many
@given(events, partitions, st.integers(1, 8), st.lists(st.tuples(partitions, weights), max_size=60))
def test_the_kth_item_is_served_within_its_bound(past, partition, k, arrivals):
    """I12: its wait depends on how many partitions there are and never on their backlogs."""
    history = after(past)
    mine = history.enqueue(partition, *[1.0] * k)
    awaited = history.queue.backlog[partition][PRIORITY_DEFAULT][min(k, len(mine)) - 1]
    already = len(history.served)
    arriving = iter(arrivals)
    while history.serve().item_id != awaited:
        arrival = next(arriving, None)
        if arrival:
            history.enqueue(*arrival)
    serves = Counter(lease.partition for lease in history.served[already:])
    heaviest, lightest = history.heaviest, history.lightest
    for other in serves.keys() - {partition}:
        charge = Fraction(k * heaviest[partition] + heaviest[other])
        assert serves[other] <= 1 + charge / Fraction(lightest[other])


@many
@given(events, partitions)
def test_a_partition_is_first_in_first_out(past, partition):
    """I6: whatever else is enqueued and served."""
    history = after(past)
    while history.serve():
        pass
    served = [int(x.item_id[1:]) for x in history.served if x.partition == partition]
    assert served == sorted(served)


@many
@given(events)
def test_every_item_is_served_once(past):
    """I9: nothing is lost, nothing comes twice, and in the end nothing is left (I11)."""
    history = after(past)
    while history.serve():
        pass
    ids = [lease.item_id for lease in history.served]
    assert sorted(ids) == sorted(set(ids))
    assert len(ids) == int(next(history.ids)[1:])
    while history.unfinished:
        history.finish()
    queue = history.queue
    assert not any(map(len, (queue.task, queue.backlog, queue.leases, queue.queue)))
    assert queue.current_virtual_time == 0


@pytest.mark.parametrize("flood", [100, 10_000])
def test_a_backlog_costs_others_nothing(flood):
    """The same tenant waits as long behind a hundred items as behind ten thousand."""
    history = History()
    history.enqueue("flood", *[1.0] * flood)
    history.serve()
    history.enqueue("small", *[1.0] * 20)
    for _ in range(40):
        history.serve()
    assert [lease.partition for lease in history.served].count("small") == 20
