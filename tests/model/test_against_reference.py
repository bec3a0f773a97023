"""The scripts on a real server do what the rule in pure Python says, whatever comes.

The machine sends random calls to both, sometimes twice as after a lost reply, and compares
results and everything that is stored after each step. Time and tokens are set, so that a run can
be repeated.
"""

import math
import random
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.clock import Clock, set_clock
from vtrr_queue.audit import read_stored, violations
from vtrr_queue.engine import Engine
from vtrr_queue.errors import DuplicateItem, LeaseLost
from vtrr_queue.inspector import Inspector
from vtrr_queue.model import DeadLetterRules, NewItem
from vtrr_queue.policy import Rate, policy_words
from vtrr_queue.reference import MOST_LOOKS, REBASE_AT, ReferenceScheduler

LEASE_MS = 1000
MOST_LETTERS = 1000
PARTITIONS = ("a", "b", "*", "a:b")
WEIGHTS = (None, 1.0, 0.25, 0.5, 2.0, 3.0, 8.0, 0.1)
LARGEST = 8.0

entries = st.lists(
    st.tuples(
        st.integers(0, 19).map(lambda number: f"i{19 - number}"),
        st.sampled_from(WEIGHTS),
        st.sampled_from((0, 0, 0, 1, 500)),
        st.sampled_from((5, 5, 5, 0, 3, 9)),
    ),
    min_size=1,
    max_size=5,
)
picks = st.integers(0, 99)
often = st.sampled_from((False, False, True))
POINTS = {
    "share": st.sampled_from((None, 0.5, 1, 3, 100)),
    "cap": st.sampled_from((None, 1, 2, math.inf)),
    "rate": st.sampled_from((None, Rate(2), Rate("5/s", 3), Rate(4, 2, "weight"), math.inf)),
    "paused": st.sampled_from((False, False, True)),
    "hold": st.sampled_from((0, 0.1, 0.7, None)),
}
policies = st.fixed_dictionaries({}, optional=POINTS)
limits = st.fixed_dictionaries(
    {},
    optional=POINTS
    | {
        "max_in_flight": st.sampled_from((None, 1, 3)),
        "total_rate": st.sampled_from((None, Rate(20, 4), Rate(3, 2, "weight"))),
    },
)


class QueueMachine(RuleBasedStateMachine):
    """Two queues that must stay equal: the scripts' and the reference's."""

    def __init__(self, redis_client):
        super().__init__()
        redis_client.flushdb()
        self.redis_client = redis_client
        self.clock = Clock(redis_client)
        self.granted = []
        self.bodies = {}
        self.patch = pytest.MonkeyPatch()
        tokens = random.Random(0)
        fake = SimpleNamespace(token_hex=lambda size: tokens.randbytes(size).hex())
        self.patch.setattr("vtrr_queue.engine.serving.secrets", fake)

    @initialize(
        position=st.sampled_from(("back", "front")),
        max_timeouts=st.sampled_from((None, 1, 2)),
        charge=st.sampled_from(("weight", "runtime")),
    )
    def start(self, position, max_timeouts, charge):
        self.engine = Engine(
            self.redis_client,
            "q",
            lease_seconds=LEASE_MS / 1000,
            reclaim_position=position,
            dead_letters=DeadLetterRules(max_timeouts, max_letters=MOST_LETTERS),
        )
        self.inspector = Inspector(self.engine)
        self.reference = ReferenceScheduler(
            lease_ms=LEASE_MS, reclaim_position=position, max_timeouts=max_timeouts
        )
        self.send, self.engine.client._once = self.engine.client._once, self.send_again
        self.is_lossy = False
        if charge == "runtime":
            self.rule_the_queue({"charge": charge}, is_lossy=False)

    def teardown(self):
        self.patch.undo()
        self.engine.client.close()

    def send_again(self, calls, attempt, confirm=None):
        """Send a call; when replies get lost send it once more, which must answer the same."""
        replies = self.send(calls, attempt, confirm)
        if self.is_lossy and replies[0][0] != "late":
            assert self.send(calls, attempt + 1) == replies
        return replies

    @property
    def now(self):
        return {"now_ms": self.clock.now_ms}

    def pick(self, pick):
        """Choose a lease that was granted at some time, held or not, the latest most often."""
        return self.granted[-1 - pick % len(self.granted)]

    def is_cancelled(self, item_id):
        """A second call finds no trace of such an item; its worker is told that it is lost."""
        record = self.reference.task.get(item_id)
        return record is not None and record.cancelled

    @rule(
        partition=st.sampled_from(PARTITIONS), entries=entries, refuse=often, is_lossy=st.booleans()
    )
    def enqueue(self, partition, entries, refuse, is_lossy):
        self.is_lossy = is_lossy
        ids = [item_id for item_id, *_ in entries]
        known = [item_id for item_id in ids if item_id in self.reference.task]
        refused = known or [i for at, i in enumerate(ids) if i in ids[:at]]
        items = [NewItem(i, i.encode(), *rest) for i, *rest in entries]
        if refuse and refused:
            with pytest.raises(DuplicateItem):
                self.engine.enqueue(partition, items, on_duplicate="error")
            return
        result = self.engine.enqueue(partition, items)
        expected = []
        for item_id, weight, delay, priority in entries:
            if self.reference.enqueue(
                partition, item_id, weight=weight, delay_ms=delay, priority=priority, **self.now
            ):
                self.bodies[item_id] = item_id.encode()
            else:
                expected.append(item_id)
        assert list(result.duplicates) == expected

    def may_repeat_lease(self):
        """Tell whether the first of two calls leaves nothing to look at, promote or move back."""
        reference, now_ms = self.reference, self.clock.now_ms
        expired = sum(expiry <= now_ms for expiry in reference.inflight.scores.values())
        due = sum(due <= now_ms for due, _ in reference.delayed.scores.values())
        woken = sum(wake <= now_ms for wake in reference.rules.parked.scores.values())
        return max(expired, due, woken) <= MOST_LOOKS and reference.current_virtual_time < REBASE_AT

    @rule(count=st.integers(1, 6), is_lossy=st.booleans())
    def lease(self, count, is_lossy):
        self.is_lossy = is_lossy and self.may_repeat_lease()
        leased = self.engine.lease(count=count, holder="me")
        tokens = [lease.token for lease in leased.items]
        expected = self.reference.lease(count, tokens=tokens, **self.now)
        assert [
            (x.item_id, x.token, x.partition, x.timeouts, x.retries, x.expires_at_ms, x.weight)
            for x in leased.items
        ] == [
            (x.item_id, x.token, x.partition, x.timeouts, x.retries, x.expires_at_ms, x.weight)
            for x in expected
        ]
        assert [x.body for x in leased.items] == [self.bodies[x.item_id] for x in expected]
        if not expected:
            assert leased.wake.next_wake_ms == self.reference.next_wake_ms()
        self.granted += [(x.item_id, x.token) for x in leased.items]

    @precondition(lambda self: self.granted)
    @rule(pick=picks, is_lossy=st.booleans())
    def ack(self, pick, is_lossy):
        self.is_lossy = is_lossy
        lease = self.pick(pick)
        expected = self.reference.ack(*lease, **self.now)
        self.is_lossy &= expected
        assert self.engine.ack(*lease).held == expected

    @precondition(lambda self: self.granted)
    @rule(pick=picks, other=picks)
    def settle_with_the_token_of_another_item(self, pick, other):
        self.is_lossy = False
        (item_id, _), (owner, token) = self.pick(pick), self.pick(other)
        if item_id != owner:
            assert not self.engine.ack(item_id, token).held
            assert not self.engine.release(item_id, token).held
            assert not self.engine.bury(item_id, token, "wrong").held

    @precondition(lambda self: self.granted)
    @rule(pick=picks, seconds=st.sampled_from((None, 0.001, 2.5)), is_lossy=st.booleans())
    def renew(self, pick, seconds, is_lossy):
        self.is_lossy = is_lossy
        lease = self.pick(pick)
        lease_ms = None if seconds is None else round(seconds * 1000)
        expected = self.reference.renew(*lease, lease_ms=lease_ms, **self.now)
        try:
            got = round(self.engine.renew(*lease, seconds).timestamp() * 1000)
        except LeaseLost:
            got = None
        assert got == expected

    @precondition(lambda self: self.granted)
    @rule(
        pick=picks,
        timed_out=st.booleans(),
        position=st.sampled_from((None, "back", "front")),
        is_lossy=st.booleans(),
    )
    def release(self, pick, timed_out, position, is_lossy):
        lease = self.pick(pick)
        options = {"timed_out": timed_out, "position": position}
        expected = self.reference.release(*lease, **options, **self.now)
        self.is_lossy = is_lossy and expected
        settled = self.engine.release(*lease, **options)
        assert settled.held == expected
        assert settled.dead == (expected and lease[0] in self.reference.dead)

    @precondition(lambda self: self.granted)
    @rule(
        pick=picks,
        delay_ms=st.sampled_from((0, 1, 500)),
        retries=st.integers(1, 3),
        is_lossy=st.booleans(),
    )
    def retry(self, pick, delay_ms, retries, is_lossy):
        lease = self.pick(pick)
        body = f"{lease[0]} again {retries}".encode()
        is_cancelled = self.is_cancelled(lease[0])
        due = self.reference.retry(*lease, delay_ms=delay_ms, retries=retries, **self.now)
        self.is_lossy = is_lossy and due is not None and not is_cancelled
        settled = self.engine.retry(
            *lease, delay_seconds=delay_ms / 1000, retries=retries, body=body
        )
        assert settled.held == (due is not None)
        if lease[0] in self.reference.delayed and due is not None:
            assert settled.wake.next_wake_ms == due
            self.bodies[lease[0]] = body

    @precondition(lambda self: self.granted)
    @rule(pick=picks, is_lossy=st.booleans())
    def bury(self, pick, is_lossy):
        lease = self.pick(pick)
        is_cancelled = self.is_cancelled(lease[0])
        expected = self.reference.bury(*lease, "no reason", **self.now)
        self.is_lossy = is_lossy and expected and not is_cancelled
        assert self.engine.bury(*lease, "no reason").held == expected

    @rule(
        numbers=st.lists(st.integers(0, 19), max_size=5),
        partition=st.sampled_from(("", "", *PARTITIONS)),
        drop=often,
        is_lossy=st.booleans(),
    )
    def decide_about_letters(self, numbers, partition, drop, is_lossy):
        ids = [f"i{number}" for number in numbers]
        # A second call can't tell what was no letter from what became an item by the first.
        self.is_lossy = is_lossy and not partition and set(ids) <= self.reference.dead.keys()
        self.is_lossy = self.is_lossy and len(ids) == len(set(ids))
        if drop:
            done = self.engine.drop(ids, partition=partition)
            assert done == list(self.reference.drop(ids, partition=partition))
            return
        done, _ = self.engine.requeue(ids, partition=partition)
        assert done == self.reference.requeue(ids, partition=partition, **self.now)

    @rule(partition=st.sampled_from(PARTITIONS), policy=policies, is_lossy=st.booleans())
    def rule_a_partition(self, partition, policy, is_lossy):
        self.is_lossy = is_lossy and "hold" not in policy
        self.engine.set_policy(partition, **policy)
        self.reference.set_policy(partition, policy_words(policy), **self.now)

    @rule(policy=limits, is_lossy=st.booleans())
    def rule_the_queue(self, policy, is_lossy):
        self.is_lossy = is_lossy
        self.engine.set_policy("", **policy)
        self.reference.set_policy("", policy_words(policy), **self.now)

    @rule(numbers=st.lists(st.integers(0, 19), max_size=6, unique=True), is_lossy=st.booleans())
    def cancel(self, numbers, is_lossy):
        ids = [f"i{number}" for number in numbers]
        self.is_lossy = is_lossy and set(ids) <= self.reference.task.keys()
        done = self.engine.cancel(ids)
        assert (list(done.waiting), list(done.running)) == self.reference.cancel(ids, **self.now)

    @rule(partition=st.sampled_from(PARTITIONS))
    def purge(self, partition):
        self.is_lossy = False
        assert self.engine.purge(partition) == self.reference.purge(partition, **self.now)

    @rule()
    def reclaim(self):
        self.is_lossy = False
        result = self.engine.reclaim()
        assert result.count == self.reference.reclaim(**self.now)
        assert result.wake.next_wake_ms == self.reference.next_wake_ms()

    @rule(by_ms=st.sampled_from((1, 499, 1000, 4000)))
    def let_time_pass(self, by_ms):
        self.clock.advance(by_ms)

    @precondition(lambda self: self.reference.task)
    @rule()
    def grow_old(self):
        """Move all tags on as years of serving do, so that the next lease moves them back."""
        reference, keys = self.reference, self.engine.keys
        reference.current_virtual_time += REBASE_AT
        self.redis_client.set(keys["current_virtual_time"], repr(reference.current_virtual_time))
        for name in ("queue", "partition_virtual_time"):
            tags = getattr(reference, name)
            for member, tag in tags.scores.items():
                tags.set(member, tag + REBASE_AT)
            if tags:
                self.redis_client.zadd(keys[name], tags.scores)

    @invariant()
    def both_hold_the_same(self):
        stored = read_stored(self.engine.client, self.engine.keys)
        reference, now_ms = self.reference, self.clock.now_ms
        assert violations(stored, LARGEST) == []
        assert stored.clock == reference.current_virtual_time
        assert list(stored.queue.items()) == in_order(reference.queue.scores)
        assert list(stored.debts.items()) == in_order(reference.partition_virtual_time.scores)
        assert stored.backlogs == {
            name: [item_id for level in sorted(line) for item_id in line[level]]
            for name, line in reference.backlog.items()
        }
        assert list(stored.parked.items()) == in_order(reference.rules.parked.scores)
        assert {name: each for name, each in stored.arrivals.items() if each > now_ms} == {
            name: each for name, each in reference.rules.arrivals.items() if each > now_ms
        }
        assert stored.estimates == reference.estimate
        assert {x.token: (x.started_at_ms, x.charge) for x in stored.leases.values()} == {
            x.token: (x.started_ms, x.charge) for x in reference.leases.values()
        }
        assert {item_id for item_id, name in stored.cancelled.items() if not name} == {
            item_id for item_id, record in reference.task.items() if record.cancelled
        }
        assert list(stored.inflight.items()) == in_order(reference.inflight.scores)
        assert stored.running == (reference.running if "p" in stored.schema else {})
        assert [(item_id, int(due)) for item_id, due in stored.delayed.items()] == [
            (item_id, due) for item_id, (due, _) in in_order(reference.delayed.scores)
        ]
        assert stored.records == {
            item_id: (*facts(x), self.bodies[item_id]) for item_id, x in reference.task.items()
        }
        assert stored.priorities == {i: x.priority for i, x in reference.task.items()}
        letters = self.inspector.dead_letters(1000)
        assert {
            x.item_id: (x.partition, x.weight, x.timeouts, x.retries, x.died_at_ms) for x in letters
        } == {
            item_id: (*facts(x.record), x.died_at_ms) for item_id, x in self.reference.dead.items()
        }
        assert all(x.reason.startswith(reference.dead[x.item_id].reason) for x in letters)
        assert {x.token: (x.item_id, x.partition, x.holder) for x in stored.leases.values()} == {
            x.token: (x.item_id, x.partition, "me") for x in reference.leases.values()
        }


def facts(record):
    weight = 1.0 if record.weight is None else record.weight
    return record.partition, weight, record.timeouts, record.retries


def in_order(scores):
    return sorted(scores.items(), key=lambda pair: (pair[1], pair[0]))


def run(redis_client, examples, steps, *, derandomize=True):
    with set_clock(redis_client):
        run_state_machine_as_test(
            lambda: QueueMachine(redis_client),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                derandomize=derandomize,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=(Phase.generate, Phase.shrink),
            ),
        )


def test_the_scripts_do_what_the_reference_does(redis_client):
    """Order, tags, clock, charges, policies and return values agree over 300 random histories."""
    run(redis_client, 300, 30)


@pytest.mark.chaos
def test_they_agree_over_long_histories(redis_client):
    """20,000 steps, others at each call."""
    run(redis_client, 200, 100, derandomize=False)
