"""A read that the server refuses raises an error of the library, and the connection stays good."""

import pytest
import redis

from tests.queues import audited_engine, items
from vtrr_queue.dead import DeadLetters
from vtrr_queue.engine import Engine
from vtrr_queue.errors import Refused, VTRRError
from vtrr_queue.inspector import Inspector

READS = {
    "whether a lease is held": ("lease", lambda engine: engine.held("token")),
    "whether an item is known": ("task", lambda engine: engine.known(["a1"])),
    "the depth": ("inflight", lambda engine: Inspector(engine).depth()),
    "the partitions": ("lease", lambda engine: Inspector(engine).partitions()),
    "the leases": ("inflight", lambda engine: Inspector(engine).leases()),
    "the audit": ("queue", lambda engine: Inspector(engine).audit()),
    "dead letters": ("dead_index", lambda engine: DeadLetters(engine).latest()),
    "how many are dead": ("dead", lambda engine: len(DeadLetters(engine))),
    "the doctor": ("schema", lambda engine: Inspector(engine).doctor()),
}


@pytest.mark.parametrize("case", READS)
def test_a_key_of_another_type(redis_client, case):
    """Alone or in a transaction, whose errors come inside its reply."""
    key, ask = READS[case]
    with audited_engine(redis_client) as engine:
        name = engine.keys[key]
        redis_client.setrange(name, 0, "x") if key != "schema" else redis_client.rpush(name, "x")
        with pytest.raises(Refused, match="WRONGTYPE"):
            ask(engine)
        redis_client.delete(name)
        engine.enqueue("a", items("a1"))
        assert engine.known(["a1"]) == ["a1"]
        assert Inspector(engine).depth().waiting == 1
        redis_client.flushdb()


@pytest.mark.parametrize("case", READS)
def test_a_user_without_the_right(server, redis_client, case):
    """Whose right was taken away while it was connected."""
    _, ask = READS[case]
    rights = {"enabled": True, "nopass": True, "keys": ["*"], "categories": ["+@all"]}
    redis_client.acl_setuser("app", **rights)
    address = server.url().replace("redis://", "redis://app:any@")
    try:
        with redis.Redis.from_url(address) as limited:
            engine = Engine(limited, "q")
            ask(engine)
            redis_client.acl_setuser("app", enabled=True, categories=["-@read"])
            with pytest.raises(Refused, match="no permissions") as caught:
                ask(engine)
            redis_client.acl_setuser("app", enabled=True, categories=["+@all"])
            ask(engine)
            engine.client.close()
    finally:
        redis_client.acl_deluser("app")
    assert isinstance(caught.value, VTRRError)
