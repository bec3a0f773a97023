"""The documented rule for an ACL user: enough for everything, and nothing in it is too much."""

import re
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.queues import items
from tests.servers import Server, find_binary, wanted_kinds
from tests.waiting import eventually
from vtrr_queue.dead import DeadLetters
from vtrr_queue.engine import Engine
from vtrr_queue.errors import VTRRError
from vtrr_queue.forecast import Forecast
from vtrr_queue.inspector import Inspector
from vtrr_queue.items import Items
from vtrr_queue.model import DeadLetterRules, Durability, NewItem, TriggerBudget
from vtrr_queue.stats import Tally, read_statistics
from vtrr_queue.survey import Survey

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "vtrr_queue"
PAGE = (ROOT / "docs" / "deployment.md").read_text()
RULE = re.search(r"ACL SETUSER files (.*?)```", PAGE, re.DOTALL)[1].split()
LOOKING = re.search(r"ACL SETUSER viewer (.*?)```", PAGE, re.DOTALL)[1].split()
COMMANDS = sorted(word[1:] for word in RULE if word.startswith("+"))
REFUSAL = r"permission|ACL|can't run this command|can't access"
RARE = {"hrandfield"}  # after thousands of partitions
BUDGET = TriggerBudget(4, 60_000)


def server_commands():
    """Commands in the text of scripts, and those that the engine and what reads it send."""
    found = {"eval", "evalsha", "subscribe"}
    for path in (SOURCE / "scripts").rglob("*.lua"):
        calls = re.findall(r"redis\.p?call\(([^,)]*)", path.read_text())
        found |= {word for call in calls for word in re.findall(r'"([A-Z]{3,})"', call)}
    pages = [*(SOURCE / "engine").glob("*.py"), SOURCE / "dead.py", SOURCE / "stats.py"]
    for path in pages:
        found |= set(re.findall(r'\(\(?"([A-Z]{3,})", ', path.read_text()))
    return {name.lower() for name in found} - {"command", "info"}  # of durability, see the page


@pytest.fixture(scope="module", params=wanted_kinds())
def guarded(request):
    """A server with nothing on it."""
    if find_binary(request.param) is None:
        pytest.fail(f"a {request.param} server is required under CI")
    with Server(request.param) as server:
        yield server


@contextmanager
def user(server, rule):
    """A client of a user with that rule; the queue is empty before and after."""
    with server.client() as admin:
        admin.flushall()
        admin.execute_command("ACL", "SETUSER", "files", "reset", *rule)
        with server.client(username="files", password="secret") as client:
            yield client
        admin.execute_command("ACL", "DELUSER", "files")


def work_out(client):
    """Use everything a queue can do, so that every command is called."""
    rules = DeadLetterRules(max_timeouts=3)
    engine = Engine(client, "files", lease_seconds=60, wake=True, dead_letters=rules)
    hints = engine.client.hear(engine.keys.wake_channel)
    try:
        next(hints)
        use_all(engine)
    finally:
        hints.close()
        engine.client.close()


def use_all(engine):
    """Enqueue, lease, and every end that a lease can have; caps, rates, priorities, cancels."""
    engine.set_policy("A", cap=1, share=2, max_backlog=100)
    engine.enqueue("A", items("a1", "a2", "a3", "a4"), budget=BUDGET)
    engine.enqueue("A", items("a1"))
    engine.enqueue("B", [NewItem("b1", b"x", priority=1), NewItem("b2", b"x", delay_ms=60_000)])
    engine.enqueue("C", items("c1", "c2", "c3"))
    leases = list(engine.lease(count=3, budget=BUDGET).items)
    assert leases
    first, second, third = leases
    engine.renew(first.item_id, first.token)
    engine.retry(first.item_id, first.token, delay_seconds=0.01, retries=1, body=b"y")
    engine.release(second.item_id, second.token, position="front", timed_out=True)
    engine.bury(third.item_id, third.token, "a test")
    eventually(lambda: engine.reclaim(budget=BUDGET).wake.waiting, what="promoted items")
    letters = DeadLetters(engine, BUDGET, lambda _: None)
    assert letters.latest()
    letters.requeue_all()
    engine.enqueue("D", items("d1", "d2", "d3"))
    engine.set_policy("E", rate="1/m")
    engine.enqueue("E", items("e1"))
    assert engine.running_of("D") == []
    engine.cancel(["a3", "d2", "d3"])
    engine.enqueue("D", items("d2"))
    engine.purge("B")
    engine.forget_triggers(["t"])
    tally = Tally()
    tally.served(0.1)
    tally.charged("A", 1.0)
    engine.count(tally)
    assert read_statistics(engine.client, engine.keys)
    assert engine.known(["b2", "none"]) == ["b2"]
    assert list(engine.delayed_of("B", 10)) == [["b2"]]
    engine.cancel(["b2"])
    eventually(lambda: is_drained(engine), what="an empty queue")


def is_drained(engine):
    """Finish what is servable; whether nothing is left."""
    for lease in engine.lease(count=10).items:
        assert engine.held(lease.token)
        engine.ack(lease.item_id, lease.token)
    return not engine.known([f"{partition}{n}" for partition in "abcde" for n in range(1, 5)])


def look_at_all(engine):
    """Ask for everything that can be asked."""
    inspector = Inspector(engine)
    inspector.depth()
    inspector.partitions()
    inspector.leases()
    inspector.dead_letters()
    assert inspector.audit() == []


def test_the_rule_names_what_is_sent():
    """In scripts and by the engine."""
    assert set(COMMANDS) == server_commands()


def test_the_rule_is_enough(guarded):
    """For everything a queue can do; other queues and channels are out of reach."""
    with user(guarded, RULE) as client:
        work_out(client)
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.hget("vtrr:others:task", "id")


def test_no_command_of_it_is_too_much(guarded):
    """Without any one of them something fails, with an error that names the permission."""
    for command in sorted({*COMMANDS} - RARE):
        print(command)
        rule = [word for word in RULE if word != f"+{command}"]
        with user(guarded, rule) as client, pytest.raises(VTRRError, match=REFUSAL):
            work_out(client)


@pytest.mark.parametrize("pattern", ["~vtrr:files:*", "&vtrr:files:wake"])
def test_one_letter_less_is_too_little(guarded, pattern):
    """Of the keys' prefix or the channel's name."""
    less = {pattern: pattern.replace("files", "file")}
    with (
        user(guarded, [less.get(word, word) for word in RULE]) as client,
        pytest.raises(VTRRError, match=REFUSAL),
    ):
        work_out(client)


def more_than_the_rule(what):
    """What the page's table adds to the rule for something."""
    row = re.search(rf"^\| {re.escape(what)}.*?\| `(.*?)` \|$", PAGE, re.MULTILINE)
    return row[1].split()


def test_what_the_inspector_needs(guarded):
    """Depth, partitions, leases, and the audit."""
    more = more_than_the_rule("`vtrr.inspector`")
    for left_out in (None, *more):
        rule = [*RULE, *(word for word in more if word != left_out)]
        with user(guarded, rule) as client:
            engine = Engine(client, "files")
            engine.enqueue("A", items("a1"))
            if left_out:
                with pytest.raises(VTRRError):
                    look_at_all(engine)
            else:
                look_at_all(engine)
            engine.client.close()


def test_a_user_who_only_looks(guarded):
    """Sees all that the command line shows, and changes nothing."""
    with guarded.client() as admin:
        engine = Engine(admin, "files")
        with user(guarded, LOOKING) as client:
            engine.enqueue("A", [NewItem(f"a{n}", b"x", priority=n) for n in range(5)])
            engine.enqueue("B", [NewItem("b", b"x", delay_ms=60_000)])
            (lease,) = engine.lease().items
            engine.bury(lease.item_id, lease.token, "why")
            engine.lease()
            engine.set_policy("A", paused=True)
            seen = Engine(client, "files")
            survey, found = Survey(seen), Items(seen)
            assert [row.name for row in survey.look().rows] == ["A"]
            for name in ("A", "B", "a3", "b", lease.item_id):
                assert survey.why(name)
            assert found.find("a4")
            assert found.next_of("A", 5)
            assert found.next_served(5) is not None
            look_at_all(seen)
            assert read_statistics(seen.client, seen.keys) is not None
            assert DeadLetters(seen, BUDGET, lambda _: None).latest(5)
            Forecast(seen).position("a4")
            with pytest.raises(VTRRError, match=REFUSAL):
                seen.enqueue("A", items("more"))
            with pytest.raises(VTRRError, match=REFUSAL):
                seen.lease()
            seen.client.close()
        engine.client.close()


def test_what_the_doctor_needs(guarded):
    """Without it the doctor says so, and goes on."""
    more = more_than_the_rule("the [doctor]")
    for rule, told in ((RULE, True), ([*RULE, *more], False)):
        with user(guarded, rule) as client:
            engine = Engine(client, "files")
            names = {finding.code for finding in Inspector(engine).doctor()}
            assert {"info-forbidden", "config-forbidden"} <= names or not told
            assert not names & {"info-forbidden", "config-forbidden"} or told
            engine.client.close()


def test_what_durability_needs():
    """Waiting for a disk."""
    more = more_than_the_rule("`durability=`")
    with Server("valkey", "--appendonly", "yes") as server:
        for left_out in (None, *(set(more) - {"+wait"})):
            rule = [*RULE, *(word for word in more if word != left_out)]
            with user(server, rule) as client:
                engine = Engine(client, "files")
                call = partial(engine.enqueue, "A", items("a1"), durability=Durability("fsync", 2))
                if left_out:
                    with pytest.raises(VTRRError):
                        call()
                else:
                    call()
                engine.client.close()


def test_another_database(guarded):
    """A database index other than 0 is selected."""
    more = more_than_the_rule("a database index")
    for rule in (RULE, [*RULE, *more]):
        with user(guarded, rule), guarded.client(3, username="files", password="secret") as client:
            engine = Engine(client, "files")
            if rule is RULE:
                with pytest.raises(VTRRError, match="permission"):
                    engine.lease()
            else:
                engine.lease()
            engine.client.close()
