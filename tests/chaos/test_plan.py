"""The plan of a chaos run depends on its seed alone, and the witness reads what scripts wrote."""

from tests.chaos import aof
from tests.chaos.plan import EVERY_SECONDS, digest, plan
from tests.chaos.scene import DURABLE
from tests.servers import Server
from tests.waiting import eventually
from vtrr_queue.engine import Engine
from vtrr_queue.model import DeadLetterRules, NewItem


def test_a_seed_gives_one_plan():
    assert plan(7, 60) == plan(7, 60)
    assert digest(plan(7, 60)) != digest(plan(8, 60))
    assert plan(7, 60) == [event for event in plan(7, 300) if event.at < 60]


def test_a_plan_has_every_kind_of_event_in_order():
    events = plan(1, 300)
    assert {event.kind for event in events} == EVERY_SECONDS.keys()
    assert [event.at for event in events] == sorted(event.at for event in events)


def test_the_witness_tells_how_each_lease_ended():
    """From the file alone; a second life begins with a second enqueue."""
    with Server("valkey", *DURABLE) as server, server.client() as client:
        rules = DeadLetterRules(max_timeouts=2)
        engine = Engine(client, "q", lease_seconds=0.05, dead_letters=rules)
        tokens = []

        def lease():
            (held,) = eventually(lambda: engine.lease().items, 5, "a lease")
            tokens.append(held.token)
            return held.item_id, held.token

        engine.enqueue("p", [NewItem("a", b"x")])
        lease()  # expires
        engine.release(*lease())
        engine.retry(*lease(), delay_seconds=0.001, retries=1, body=b"y")
        engine.renew(*lease(), 60)
        engine.ack("a", tokens[-1])
        engine.enqueue("p", [NewItem("a", b"x"), NewItem("b", b"x")])
        engine.ack(*lease())
        engine.release(*lease(), timed_out=True)
        engine.release(*lease(), timed_out=True)
        engine.client.close()
        server.restart()  # the file goes on
        lives = aof.lives(server.folder, "q")
    first, second = lives["a"]
    assert first.leases == tokens[:4]
    assert list(first.ends.values()) == ["timed out", "released", "retried", "acked"]
    assert second.ends == {tokens[4]: "acked"}
    assert list(lives["b"][0].ends.values()) == ["timed out", "dead"]
    assert aof.ends(lives)["acked"] == 2
